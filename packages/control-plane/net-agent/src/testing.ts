// SPDX-License-Identifier: Apache-2.0
// Parts of net-agent for tests of other packages.
export { runLoop } from "./loop.ts";
export { BY_NETWORK, listRequestedNetworks } from "./wake.ts";
