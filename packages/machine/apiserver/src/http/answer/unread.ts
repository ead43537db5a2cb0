// SPDX-License-Identifier: Apache-2.0
// What becomes of an answer that nobody reads?
import type { ServerResponse } from "node:http";

/** Cuts the connection when the client has taken nothing for so long, while something waits for it. */
export function endUnread(response: ServerResponse, withinMs: number): void {
  // Each write and each byte taken begins the time anew.
  response.setTimeout(withinMs, () => {
    if (response.writableLength > 0) {
      response.destroy();
    }
  });
}
