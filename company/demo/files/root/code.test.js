import assert from 'node:assert/strict';
import { test } from 'node:test';

import { languageCode } from '../src/code.js';

for (const [tag, code] of [['de', 'de'], ['DE', 'de'], ['de-AT', 'de'], [' fr_CA ', 'fr']]) {
  test(`reads ${JSON.stringify(tag)} as ${code}`, () => {
    assert.equal(languageCode(tag), code);
  });
}

test('says what is wrong with a tag that is none', () => {
  assert.throws(() => languageCode(null), /must be a string, not null/);
});
