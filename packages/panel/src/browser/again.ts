// SPDX-License-Identifier: Apache-2.0
// What becomes of a request when the network changes? Chromium breaks off all that is under way, to the machine itself too, when
// an address of the host comes or goes; VMs that start bring some. Who only asks, asks again.
// Source: Chromium, net_error_list.h, ERR_NETWORK_CHANGED
import { pause } from "./clock.ts";

/** How often at most. */
const ATTEMPTS = 5;
/** Between two, milliseconds. */
const AGAIN_MS = 500;

/** What `ask` gives, after several attempts maybe: for what may be done twice. Throws what the last one has thrown. */
export async function again<T>(ask: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
      await pause(AGAIN_MS);
    }
  }
}
