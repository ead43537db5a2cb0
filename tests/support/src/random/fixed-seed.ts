// SPDX-License-Identifier: Apache-2.0
// Fixes fast-check's seed. Vitest runs this before each test file; a failing property prints the seed.
import fc from "fast-check";
import { SEED } from "./seed.ts";

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: SEED });
