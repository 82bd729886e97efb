import assert from 'node:assert/strict';
import { test } from 'node:test';

import { cleanName } from '../src/index.js';

const cases = [
  ['Ada', 'Ada'],
  ['  Ada  ', 'Ada'],
  ['Ada\t Lovelace', 'Ada Lovelace'],
  ['Zoë\u00a0Saldaña', 'Zoë Saldaña'],
  ['李\u3000小龙', '李 小龙'],
];

for (const [given, expected] of cases) {
  test(`prints ${JSON.stringify(given)} as ${JSON.stringify(expected)}`, () => {
    assert.equal(cleanName(given), expected);
  });
}

test('says what is wrong with a name that is none', () => {
  assert.throws(() => cleanName(null), /must be a string, not null/);
  assert.throws(() => cleanName(7), /must be a string, not number/);
  assert.throws(() => cleanName('\n'), /visible character/);
});
