import { cleanName } from './name.js';

/**
 * Greets one person.
 *
 * @param {string} name Whom to greet.
 * @param {{ greeting?: string }} [options] `greeting` replaces "Hello".
 * @returns {string} For example "Hello, Ada".
 * @throws {TypeError} If the name is not a string with at least one visible character.
 */
export function greet(name, { greeting = 'Hello' } = {}) {
  return `${greeting}, ${cleanName(name)}`;
}
