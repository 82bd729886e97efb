import assert from 'node:assert/strict';
import { test } from 'node:test';

import { greet } from '../src/index.js';

test('leaves the given list as it was', () => {
  const names = Object.freeze([' Ada ', 'Bob']);
  greet(names);
  assert.deepEqual([...names], [' Ada ', 'Bob']);
});

test('takes a name that contains a comma as one name', () => {
  assert.equal(greet('Bob, Jr.'), 'Hello, Bob, Jr.');
});

test('names the bad guest by its kind', () => {
  assert.throws(() => greet(['Ada', null]), /must be a string, not null/);
});
