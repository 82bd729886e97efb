import { joinNames } from './join.js';
import { cleanName } from './name.js';

/**
 * Greets one person or several at once.
 *
 * @param {string | string[]} names Whom to greet.
 * @param {{ greeting?: string }} [options] `greeting` replaces "Hello".
 * @returns {string} For example "Hello, Ada" or "Hello, Ada, Bob and Cy".
 * @throws {TypeError} If a name is not a string with at least one visible character, or the list is empty.
 */
export function greet(names, { greeting = 'Hello' } = {}) {
  const list = Array.isArray(names) ? names : [names];
  return `${greeting}, ${joinNames(list.map(cleanName))}`;
}
