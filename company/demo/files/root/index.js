// The public face of the library: everything else in this folder is private.
export { greet } from './greet.js';
export { LANGUAGES } from './language.js';
export { cleanName } from './name.js';
