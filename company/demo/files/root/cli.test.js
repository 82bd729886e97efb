import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

const run = (...words) => spawnSync(process.execPath, ['src/cli.js', ...words], { encoding: 'utf8' });

test('greets in a language from the command line', () => {
  assert.equal(run('--language', 'de', 'Ada').stdout, 'Hallo, Ada\n');
  assert.equal(run('Ada').stdout, 'Hello, Ada\n');
});
