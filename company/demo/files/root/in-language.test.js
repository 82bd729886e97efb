import assert from 'node:assert/strict';
import { test } from 'node:test';

import { LANGUAGES, greet } from '../src/index.js';

test('greets in the language that was asked for', () => {
  assert.equal(greet('Ada', { language: 'de' }), 'Hallo, Ada');
  assert.equal(greet('Ada', { language: 'fr-CA' }), 'Bonjour, Ada');
  assert.equal(greet('Ada'), 'Hello, Ada');
});

test('another greeting wins over the language', () => {
  assert.equal(greet('Ada', { language: 'de', greeting: 'Moin' }), 'Moin, Ada');
});

test('an unknown language is an error that names the known ones', () => {
  assert.throws(() => greet('Ada', { language: 'xx' }), new RegExp(LANGUAGES.join(', ')));
});
