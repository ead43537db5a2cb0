// SPDX-License-Identifier: Apache-2.0
import type { Iface, Network, VmiSpec } from "@patchbay/api";
import { expect, test } from "vitest";
import { fixedNetworkCauses } from "./fixed-networks.ts";

const BINDINGS = { own: { domainAttachmentType: "tap" } };
const BRIDGE: Iface = { name: "a", bridge: {} };
const TAP: Iface = { name: "a", binding: { name: "own" } };
const on = (networkName: string): Network => ({ name: "a", multus: { networkName } });

function spec(network: Network, iface: Iface): VmiSpec {
  return { networks: [network], domain: { devices: { interfaces: [iface] } } };
}

test.each<{ name: string; from: VmiSpec; to: VmiSpec; want: number }>([
  {
    name: "of a bridge is swapped",
    from: spec(on("blue"), BRIDGE),
    to: spec(on("red"), BRIDGE),
    want: 0,
  },
  { name: "of a tap does not", from: spec(on("blue"), TAP), to: spec(on("red"), TAP), want: 1 },
  {
    name: "does not become the pod's",
    from: spec(on("blue"), BRIDGE),
    to: spec({ name: "a", pod: {} }, BRIDGE),
    want: 1,
  },
  {
    name: "does not become a default one",
    from: spec(on("blue"), BRIDGE),
    to: spec({ name: "a", multus: { networkName: "blue", default: true } }, BRIDGE),
    want: 1,
  },
  { name: "that is the same", from: spec(on("blue"), TAP), to: spec(on("blue"), TAP), want: 0 },
  {
    name: "of a NIC that leaves is not judged",
    from: spec(on("blue"), { ...TAP, state: "absent" }),
    to: spec(on("red"), TAP),
    want: 0,
  },
  { name: "that is new", from: { domain: {} }, to: spec(on("red"), TAP), want: 0 },
])("the network of a running NIC $name", ({ from, to, want }) => {
  const causes = fixedNetworkCauses({ before: from, after: to, base: "spec" }, BINDINGS);
  expect(causes.map(({ field }) => field)).toEqual(Array(want).fill("spec.networks[0]"));
});
