#!/usr/bin/env node
// The program `gantry`: hands the arguments to the command line and sets the exit code.

import { main } from '../tools/index.ts';

process.exitCode = await main(process.argv.slice(2));
