// SPDX-License-Identifier: Apache-2.0
// Removing an iface: what happens to VMs and VMIs.
import { describe, expect, test } from "vitest";
import {
  POD_NETWORK,
  POD_IFACE,
  BLUE_NETWORK,
  BLUE,
  aVm,
  aVmi,
  WITH_BLUE,
  WITH_ABSENT,
  remove,
  writtenNics,
  refusalOf,
} from "../testing/nic-requests.ts";
import type { NicPlan } from "./refusal.ts";
import type { NicTarget } from "./ifaces.ts";

describe("removing an interface", () => {
  test("from a running VM marks the entry", () => {
    const plan = remove({ kind: "vm", vm: aVm(WITH_BLUE), vmi: aVmi(WITH_BLUE) });
    expect(plan).toMatchObject({ kind: "patch", effect: "live" });
    expect(writtenNics(plan)).toEqual([
      WITH_ABSENT.networks,
      [POD_IFACE, { ...BLUE, state: "absent" }],
    ]);
  });

  test("removes both entries of a stopped VM", () => {
    const plan = remove({ kind: "vm", vm: aVm(WITH_BLUE) });
    expect(plan).toMatchObject({ kind: "patch", effect: "start" });
    expect(writtenNics(plan)).toEqual([[POD_NETWORK], [POD_IFACE]]);
  });

  test.each<{ name: string; target: NicTarget }>([
    {
      name: "an interface marked as absent",
      target: { kind: "vm", vm: aVm(WITH_ABSENT), vmi: aVmi(WITH_BLUE) },
    },
    {
      name: "an interface deleted from the VM and not yet unplugged",
      target: { kind: "vm", vm: aVm(), vmi: aVmi(WITH_ABSENT) },
    },
  ])("does nothing for $name", ({ target }) => {
    expect(remove(target)).toEqual({
      kind: "unchanged",
      message: "interface 'blue' is already being unplugged",
    });
  });

  test("removes an entry that no guest has", () => {
    const vmi = aVmi(WITH_ABSENT, { phase: "Succeeded" });
    expect(writtenNics(remove({ kind: "vm", vm: aVm(WITH_ABSENT), vmi }))).toEqual([
      [POD_NETWORK],
      [POD_IFACE],
    ]);
    expect(refusalOf(remove({ kind: "vm", vm: aVm(), vmi }))).toEqual([
      422,
      "FieldValueNotFound name",
    ]);
  });

  test("reports the reason for a rejection with the request's field names", () => {
    const ifaces = [POD_IFACE, { name: "blue", sriov: {} }];
    const plan = remove({
      kind: "vmi",
      vmi: aVmi({ networks: [POD_NETWORK, BLUE_NETWORK], ifaces }),
    });
    expect(plan.kind === "refused" && plan.refusal.causes).toEqual([
      { reason: "FieldValueInvalid", field: "name", message: expect.any(String) as string },
    ]);
  });

  test.each<{ name: string; plan: () => NicPlan; want: readonly unknown[] }>([
    {
      name: "an unknown interface of a VMI",
      plan: () => remove({ kind: "vmi", vmi: aVmi() }, "green"),
      want: [422, "FieldValueNotFound name"],
    },
    {
      name: "an unknown interface",
      plan: () => remove({ kind: "vm", vm: aVm(), vmi: aVmi() }, "green"),
      want: [422, "FieldValueNotFound name"],
    },
    {
      name: "the pod network's interface",
      plan: () => remove({ kind: "vm", vm: aVm(), vmi: aVmi() }, "default"),
      want: [422, "FieldValueInvalid name"],
    },
    {
      name: "an SR-IOV interface",
      plan: () =>
        remove({
          kind: "vmi",
          vmi: aVmi({
            networks: [POD_NETWORK, BLUE_NETWORK],
            ifaces: [POD_IFACE, { name: "blue", sriov: {} }],
          }),
        }),
      want: [422, "FieldValueInvalid name"],
    },
    {
      name: "an interface of a VMI that is not running",
      plan: () => remove({ kind: "vmi", vmi: aVmi(WITH_BLUE, { phase: "Succeeded" }) }),
      want: [409],
    },
  ])("rejects $name", ({ plan, want }) => {
    expect(refusalOf(plan())).toEqual(want);
  });
});
