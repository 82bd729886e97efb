import { greetingIn } from './language.js';
import { cleanName } from './name.js';

/**
 * Greets one person.
 *
 * @param {string} name Whom to greet.
 * @param {{ greeting?: string, language?: string }} [options] `language` chooses the greeting; `greeting` replaces it.
 * @returns {string} For example "Hello, Ada".
 * @throws {TypeError} If the name is not a string with at least one visible character.
 * @throws {RangeError} If there is no greeting in that language.
 */
export function greet(name, { language = 'en', greeting = greetingIn(language) } = {}) {
  return `${greeting}, ${cleanName(name)}`;
}
