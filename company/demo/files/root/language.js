import { languageCode } from './code.js';

const GREETINGS = new Map([
  ['de', 'Hallo'],
  ['en', 'Hello'],
  ['fr', 'Bonjour'],
]);

/** The languages that can be greeted in, sorted. */
export const LANGUAGES = [...GREETINGS.keys()];

/**
 * How a language greets.
 *
 * @param {string} language Like 'de'.
 * @returns {string} Like 'Hallo'.
 * @throws {RangeError} If the language is not known; the message names those that are.
 */
export function greetingIn(language) {
  const greeting = GREETINGS.get(languageCode(language));
  if (greeting === undefined) {
    throw new RangeError(`there is no greeting in ${JSON.stringify(language)}; there is one in ${LANGUAGES.join(', ')}`);
  }
  return greeting;
}
