// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { Network } from "../kinds/network.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { validateVmiNetworkChange } from "./vmi-change.ts";

const POD: Network = { name: "default", pod: {} };
const BLUE: Network = { name: "blue", multus: { networkName: "blue" } };
const OWN: Network = { name: "own", multus: { networkName: "own", default: true } };

function withNetworks(networks: readonly Network[] | undefined): VmiSpec {
  return { domain: {}, ...(networks === undefined ? {} : { networks: [...networks] }) };
}

describe("the default network of a VMI that runs", () => {
  type Row = {
    readonly name: string;
    readonly before?: readonly Network[];
    readonly after?: readonly Network[];
    readonly lost: readonly string[];
  };
  test.each<Row>([
    { name: "stays beside an added one", before: [POD], after: [POD, BLUE], lost: [] },
    { name: "stays beside a removed one", before: [POD, BLUE], after: [POD], lost: [] },
    { name: "is not removed", before: [POD], after: [BLUE], lost: ["default"] },
    { name: "is not the last to be removed", before: [POD], lost: ["default"] },
    { name: "is not there", after: [BLUE], lost: [] },
    { name: "has no other name", before: [POD], after: [{ ...POD, name: "b" }], lost: ["default"] },
    {
      name: "becomes no other one",
      before: [POD],
      after: [{ name: "default", multus: { networkName: "blue" } }],
      lost: ["default"],
    },
    {
      name: "becomes no other one of Multus",
      before: [OWN],
      after: [{ name: "own", multus: { networkName: "other", default: true } }],
      lost: ["own"],
    },
    {
      name: "of Multus becomes no pod network",
      before: [OWN],
      after: [{ ...POD, name: "own" }],
      lost: ["own"],
    },
    {
      name: "of Multus has no two sources",
      before: [OWN],
      after: [{ ...OWN, pod: {} }],
      lost: ["own"],
    },
    { name: "of Multus stays", before: [OWN], after: [OWN, BLUE], lost: [] },
  ])("$name", ({ before, after, lost }) => {
    expect(validateVmiNetworkChange(withNetworks(before), withNetworks(after))).toEqual(
      lost.map((name) => ({
        reason: "FieldValueForbidden",
        field: "spec.networks",
        message: `network '${name}' is the default network of the pod and cannot be removed or replaced while the VMI runs`,
      })),
    );
  });
});
