import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

test('an unknown language ends with one line and the code of wrong usage', () => {
  const { status, stderr } = spawnSync(process.execPath, ['src/cli.js', '--language', 'xx', 'Ada'], { encoding: 'utf8' });
  assert.equal(status, 2);
  assert.match(stderr, /^greet: there is no greeting in "xx"; there is one in de, en, fr\n$/u);
});
