/**
 * Brings a language tag into the form of the greetings: 'DE', 'de-AT' and ' de ' all mean 'de'.
 *
 * @param {string} tag
 * @returns {string}
 * @throws {TypeError} If it is no text.
 */
export function languageCode(tag) {
  if (typeof tag !== 'string') {
    throw new TypeError(`a language must be a string, not ${tag === null ? 'null' : typeof tag}`);
  }
  return tag.trim().toLowerCase().split(/[-_]/u)[0];
}
