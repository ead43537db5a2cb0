// SPDX-License-Identifier: Apache-2.0
// The public door of net-agent.
export { runAgent } from "./compose.ts";
