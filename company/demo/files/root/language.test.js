import assert from 'node:assert/strict';
import { test } from 'node:test';

import { LANGUAGES, greetingIn } from '../src/language.js';

test('greets in every language there is', () => {
  assert.deepEqual(LANGUAGES.map(greetingIn), ['Hallo', 'Hello', 'Bonjour']);
});

test('names the known languages when one is not', () => {
  assert.throws(() => greetingIn('xx'), /no greeting in "xx"; there is one in de, en, fr/);
});
