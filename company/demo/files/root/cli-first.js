#!/usr/bin/env node
import { greet } from './index.js';

const names = process.argv.slice(2);
let language;
if (names[0] === '--language') {
  language = names[1];
  names.splice(0, 2);
}
if (names.length === 0) {
  console.error('usage: greet [--language CODE] NAME...');
  process.exitCode = 2;
} else {
  for (const name of names) {
    console.log(greet(name, { language }));
  }
}
