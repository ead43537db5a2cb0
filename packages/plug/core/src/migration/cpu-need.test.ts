// SPDX-License-Identifier: Apache-2.0
// Which labels must a target's node have, for a guest's processors?
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { aGuestFacts } from "../testing/migration-facts.ts";
import { cpuNeedOf } from "./cpu-need.ts";

const OWN = "host-model-cpu.node.kubevirt.io/Skylake";
const VENDOR = "cpu-vendor.node.kubevirt.io/Intel";
const TAKES = "cpu-model-migration.node.kubevirt.io/Skylake";
const LABELS = { [OWN]: "true", [VENDOR]: "true", other: "x" };

test.each<{
  name: string;
  model?: string;
  useEmulation?: true;
  labels?: Readonly<Record<string, string>>;
  want: object;
}>([
  {
    name: "the host's own",
    model: "host-passthrough",
    want: { labels: { [OWN]: "true", [VENDOR]: "true" } },
  },
  {
    name: "the host's own, of which nothing is known",
    model: "host-passthrough",
    labels: {},
    want: { labels: {}, problem: expect.stringContaining("name a CPU model in the VM") as string },
  },
  {
    name: "the host's own, emulated",
    model: "host-passthrough",
    useEmulation: true,
    want: { labels: {} },
  },
  {
    name: "the host's model",
    model: "host-model",
    want: { labels: { [TAKES]: "true", [VENDOR]: "true" } },
  },
  {
    name: "the host's model, of which nothing is known",
    model: "host-model",
    labels: {},
    want: { labels: {} },
  },
  { name: "a model that is named", model: "Nehalem", want: { labels: {} } },
])("$name", ({ model, useEmulation = false, labels = LABELS, want }) => {
  const vmi = aVmi({});
  const domain = { ...vmi.spec.domain, ...(model === undefined ? {} : { cpu: { model } }) };
  const facts = aGuestFacts({ ...vmi, spec: { ...vmi.spec, domain } });
  const node = { apiVersion: "v1", kind: "Node", metadata: { name: "node1", labels } };
  const settings = { ...facts.settings, useEmulation };
  expect(cpuNeedOf({ ...facts, settings }, node)).toEqual(want);
});

test("nothing is known of the node", () => {
  expect(cpuNeedOf(aGuestFacts(), undefined)).toEqual({ labels: {} });
});
