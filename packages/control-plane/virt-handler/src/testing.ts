// SPDX-License-Identifier: Apache-2.0
// Parts of virt-handler for tests of other packages.
export { createAddressStore } from "./addresses/address-store.ts";
export { createLearnedAddresses, type LearnedAddresses } from "./addresses/learned-addresses.ts";
export { DEFAULT_CONCURRENCY } from "./config.ts";
export { runLoop } from "./loop.ts";
export { startRelay, type Relay } from "./relays/relays.ts";
export type { RelayIdentity, RelayOptions, RelayMessage } from "./relays/protocol.ts";
export { createFakeRelays } from "./testing/fake-relays.ts";
export { withBackoff } from "./sessions/backoff.ts";
export { createSessions } from "./sessions/sessions.ts";
export { TwoNodes } from "./testing/two-nodes.ts";
