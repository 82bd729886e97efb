/**
 * Joins names the way a sentence does: commas between them, "and" before the last one.
 *
 * @param {string[]} names Clean names.
 * @returns {string}
 * @throws {TypeError} If there is no name.
 */
export function joinNames(names) {
  if (names.length === 0) {
    throw new TypeError('there must be at least one name');
  }
  const first = names.slice(0, -1);
  const last = names[names.length - 1];
  return first.length === 0 ? last : `${first.join(', ')} and ${last}`;
}
