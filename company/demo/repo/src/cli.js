#!/usr/bin/env node
import { greet } from './index.js';

const names = process.argv.slice(2);
if (names.length === 0) {
  console.error('usage: greet NAME...');
  process.exitCode = 2;
} else {
  for (const name of names) {
    console.log(greet(name));
  }
}
