import assert from 'node:assert/strict';
import { test } from 'node:test';

import { greet } from '../src/index.js';

test('greets one person', () => {
  assert.equal(greet('Ada'), 'Hello, Ada');
});

test('cleans the name before it greets', () => {
  assert.equal(greet('  Ada   Lovelace '), 'Hello, Ada Lovelace');
});

test('uses another greeting when asked', () => {
  assert.equal(greet('Ada', { greeting: 'Good morning' }), 'Good morning, Ada');
});

test('refuses to greet nobody', () => {
  assert.throws(() => greet('   '), /visible character/);
  assert.throws(() => greet(undefined), /must be a string, not undefined/);
});
