// SPDX-License-Identifier: Apache-2.0
// Servers of plain HTTP, for probes and metrics.
import type * as http from "node:http";
import { createRequire } from "node:module";

/**
 * As `node:http` has it. Importing that as a module reads all its properties, also those that load WebSocket and fetch,
 * which take 7 MB of a process that has nothing else. Source: Node.js, lib/http.js, the lazy properties of its exports
 */
export const { createServer } = createRequire(import.meta.url)("node:http") as typeof http;
