// SPDX-License-Identifier: Apache-2.0
// Can what the launcher pod is asked for always be read?
import { names, NETWORKS_MAX, parseNetworks, printNetworks } from "@patchbay/api";
import { aVmi, type NicSketch } from "@patchbay/testing";
import { expect, test } from "vitest";
import { attachmentStatuses } from "../../status/attachments.ts";
import { planPodNetworks } from "./pod-networks.ts";

/** Differs for each text, as far as these tests need it. */
const sha256Hex = (text: string): string => Buffer.from(text).toString("hex").padEnd(64, "0");

function elementsOf(nics: readonly NicSketch[]): readonly string[] {
  const text = printNetworks(planPodNetworks(aVmi({ nics }), [], sha256Hex));
  const parsed = parseNetworks(text);
  if (!parsed.ok) throw new Error(`${names.NETWORKS_ANNOTATION}: ${parsed.reason}`);
  return parsed.elements.map(({ name, namespace = "" }) => `${namespace}/${name}`);
}

test("a network whose name has dots is asked for", () => {
  expect(elementsOf([{ name: "a", network: "blue.v2" }])).toEqual(["default/blue.v2"]);
});

test("a name that slipped past admission holds up no other, and says so", () => {
  const nics = [
    { name: "bad", network: "a.b/blue" },
    { name: "good", network: "green" },
  ];
  expect(elementsOf(nics)).toEqual(["default/green"]);
  const pod = { elements: [], networkStatus: [], errors: {}, podIps: [] };
  expect(attachmentStatuses(aVmi({ nics }), pod, sha256Hex)).toMatchObject([
    { name: "bad", state: "Failed", reason: "NetworkInvalid" },
  ]);
});

test("of too many networks the first are asked for", () => {
  const nics = Array.from({ length: NETWORKS_MAX + 6 }, (_unused, index) => ({
    name: `n${String(index)}`,
  }));
  expect(elementsOf(nics)).toHaveLength(NETWORKS_MAX);
});
