// SPDX-License-Identifier: Apache-2.0
// The VMI's history records operations on NICs, without writes of its own.
import type { IfaceHistory, VirtualMachineInstance } from "@patchbay/api";
import { ifacesOf } from "@patchbay/core/nics";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import type { Bench } from "../../testing/bench.ts";
import { attachment, putNicAt, running } from "../../testing/scene.ts";

const PATCH = "patch virtualmachineinstances default/vm1";
const MAC = "02:00:00:00:00:02";

async function historyOf(bench: Bench): Promise<IfaceHistory> {
  return (await bench.vmi()).status?.interfaceHistory ?? [];
}

/** The user has requested another NIC; virt-controller has not handled it yet. */
function withTwo(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const { spec } = aVmi({ nics: [{ name: "one" }, { name: "two", mac: MAC }] });
  const [, added] = ifacesOf(spec);
  if (added === undefined) throw new Error("there are two");
  const interfaces = [...ifacesOf(vmi.spec), added];
  const devices = { ...vmi.spec.domain.devices, interfaces };
  const networks = [
    ...(vmi.spec.networks ?? []),
    ...(spec.networks ?? []).filter(({ name }) => name === "two"),
  ];
  return { ...vmi, spec: { ...vmi.spec, networks, domain: { ...vmi.spec.domain, devices } } };
}

async function plugTwo(bench: Bench): Promise<void> {
  await bench.edit(withTwo);
  await bench.resume();
  bench.nowMs += 500;
  putNicAt(bench.podNetwork, "two");
  await bench.edit((vmi) => ({
    ...vmi,
    status: { ...vmi.status, attachments: [attachment("one"), attachment("two")] },
  }));
  await bench.resume();
}

function linkOfOne(state: "up" | "down") {
  return (vmi: VirtualMachineInstance): VirtualMachineInstance => {
    const interfaces = ifacesOf(vmi.spec).map((iface) =>
      iface.name === "one" ? { ...iface, state } : iface,
    );
    const devices = { ...vmi.spec.domain.devices, interfaces };
    return { ...vmi, spec: { ...vmi.spec, domain: { ...vmi.spec.domain, devices } } };
  };
}

describe("the history of a guest's NICs", () => {
  test("has no entries for NICs that started with the guest", async () => {
    expect(await historyOf(await running(["one"]))).toEqual([]);
  });

  test("has a plug with its phases, in the write that reports the NIC as ready", async () => {
    const bench = await running(["one"]);
    const before = bench.store.calls.length;
    await plugTwo(bench);
    expect(await historyOf(bench)).toMatchObject([
      {
        name: "two",
        operations: [
          {
            type: "Plug",
            networkName: "default/blue",
            outcome: "Done",
            phases: [{ phase: "Pending", milliseconds: 500 }, { phase: "Wiring" }],
          },
        ],
      },
    ]);
    expect(bench.store.calls.slice(before).filter((call) => call === PATCH)).toHaveLength(1);
  });

  test("contains the link state change of a NIC", async () => {
    const bench = await running(["one"]);
    await bench.edit(linkOfOne("down"));
    await bench.resume();
    expect(await historyOf(bench)).toMatchObject([
      { name: "one", operations: [{ type: "LinkState", linkState: "down", outcome: "Done" }] },
    ]);
  });

  test("continues after the process that began it has died", async () => {
    const bench = await running(["one"]);
    await bench.edit(withTwo);
    await bench.resume();
    bench.nowMs += 5000;
    await bench.resume();
    const [open] = (await historyOf(bench))[0]?.operations ?? [];
    expect(open).toMatchObject({ type: "Plug", phases: [{ phase: "Pending" }] });
    bench.nowMs += 5000;
    putNicAt(bench.podNetwork, "two");
    await bench.edit((vmi) => ({
      ...vmi,
      status: { ...vmi.status, attachments: [attachment("one"), attachment("two")] },
    }));
    await bench.run();
    expect(await historyOf(bench)).toMatchObject([
      {
        name: "two",
        operations: [
          {
            startTimestamp: open?.startTimestamp,
            outcome: "Done",
            phases: [{ phase: "Pending", milliseconds: 10_000 }, {}],
          },
        ],
      },
    ]);
  });

  test("closes open entries when the guest ends", async () => {
    const bench = await running(["one"]);
    await bench.edit(withTwo);
    await bench.resume();
    bench.nowMs += 5000;
    await bench.resume();
    bench.daemon.endDomain("default_vm1", "stopped");
    await bench.resume();
    const { status } = await bench.vmi();
    expect(status?.phase).toBe("Succeeded");
    expect(status?.interfaceHistory).toMatchObject([
      { name: "two", operations: [{ type: "Plug", outcome: "GuestEnded" }] },
    ]);
  });
});
