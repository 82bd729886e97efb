import assert from 'node:assert/strict';
import { test } from 'node:test';

import { greet } from '../src/index.js';

test('joins two names with and', () => {
  assert.equal(greet(['Ada', 'Bob']), 'Hello, Ada and Bob');
});

test('puts commas before the last two of many names', () => {
  assert.equal(greet(['Ada', 'Bob', 'Cy']), 'Hello, Ada, Bob and Cy');
});

test('greets a list of one like the one', () => {
  assert.equal(greet(['Ada']), greet('Ada'));
});

test('cleans every name and keeps the options', () => {
  assert.equal(greet([' Ada ', 'Bob  B.'], { greeting: 'Welcome' }), 'Welcome, Ada and Bob B.');
});

test('refuses an empty list and a list with a nameless guest', () => {
  assert.throws(() => greet([]), /at least one name/);
  assert.throws(() => greet(['Ada', ' ']), /visible character/);
});
