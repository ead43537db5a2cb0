// SPDX-License-Identifier: Apache-2.0
import type { Attachment, Network } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { withNics } from "../nics/nics.ts";
import { findForwardAddress } from "./guest-request.ts";

const ATTACHMENT: Attachment = {
  name: "one",
  podInterfaceName: "eth0",
  state: "Attached",
  ips: ["127.0.0.1"],
};

test.each<{ name: string; network: Network; want: unknown }>([
  { name: "the pod network", network: { name: "one", pod: {} }, want: { address: "127.0.0.1" } },
  {
    name: "a Multus network in its place, whose addresses a tenant chooses",
    network: { name: "one", multus: { networkName: "blue", default: true } },
    want: {
      refusal: {
        code: 400,
        reason: "BadRequest",
        causes: [],
        message: "port forwarding is for the pod network only; interface 'one' is on network blue",
      },
    },
  },
])("forwards ports to $name", ({ network, want }) => {
  const vmi = aVmi({ status: { phase: "Running", attachments: [ATTACHMENT] } });
  const spec = withNics(vmi.spec, [network], [{ name: "one", masquerade: {} }]);
  expect(findForwardAddress({ ...vmi, spec })).toEqual(want);
});
