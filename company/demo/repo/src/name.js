/**
 * Brings a name into the form in which it is printed: outer blanks removed, inner runs of blanks made one.
 *
 * @param {string} name
 * @returns {string}
 * @throws {TypeError} If nothing printable is left, because "Hello, " greets nobody.
 */
export function cleanName(name) {
  if (typeof name !== 'string') {
    throw new TypeError(`a name must be a string, not ${name === null ? 'null' : typeof name}`);
  }
  const clean = name.trim().replace(/\s+/gu, ' ');
  if (clean === '') {
    throw new TypeError('a name must have at least one visible character');
  }
  return clean;
}
