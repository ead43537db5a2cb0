// SPDX-License-Identifier: Apache-2.0
// When is a guest asked again to let go of a device? As Nova does it: asked once and waited for; libvirt's word that it
// failed ends that try, and the pauses between tries grow.
import { REQUESTS_MAX } from "../../reasons/words.ts";

/** What a guest was asked to let go of, and has not. */
export interface UnplugRequest {
  /** How often it was asked. */
  readonly count: number;
  /** Milliseconds since the last time. */
  readonly agoMs: number;
  /** The last time has failed: libvirt said so. Source: libvirt VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED. */
  readonly isRefused: boolean;
}

/** Asked again no sooner: a request made in firmware is silently lost. Source: measured on libvirt 9.0 and QEMU 7.2. */
const FIRST_MS = 10_000;
/** Nothing is given up: a guest that is reset, or whose driver comes, lets go at the next request. */
const MOST_MS = 60_000;

/** From one request to the next, milliseconds; `count` is how often the guest was asked by then. */
export function pauseAfterRequest(count: number): number {
  return Math.min(MOST_MS, FIRST_MS * 2 ** Math.max(0, count - REQUESTS_MAX));
}
