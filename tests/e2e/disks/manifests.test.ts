// SPDX-License-Identifier: Apache-2.0
// Manifests that people have, applied as they are: what becomes of them?
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import { afterAll, describe, expect, test } from "vitest";
import { CHANGE_MS, machine } from "../machine.ts";
import { DEBIAN_BOOT_MS, DEBIAN_DISK } from "./debian.ts";

const MANIFESTS = join(import.meta.dirname, "manifests");

function apply(name: string): void {
  machine.kubectl("apply", "-f", join(MANIFESTS, `${name}.yaml`));
}

function printableStatus(vm: string): string | undefined {
  return machine.findVm(vm)?.status?.printableStatus;
}

/** What a VM's condition says of its start. */
async function obstacleOf(vm: string): Promise<string> {
  return eventually(
    () => {
      const conditions = machine.findVm(vm)?.status?.conditions ?? [];
      return conditions.find(({ reason }) => reason === "UnsupportedSpec")?.message;
    },
    { withinMs: CHANGE_MS },
  );
}

afterAll(() => {
  for (const name of ["quickstart-vm", "refused-vm", "pvc-vm-services"]) {
    const file = join(MANIFESTS, `${name}.yaml`);
    machine.kubectl("delete", "-f", file, "--ignore-not-found", "--wait");
  }
});

describe("a manifest", () => {
  test(
    "of a VM that is not to run is stored; it runs when it is started, behind the pod's address",
    { timeout: DEBIAN_BOOT_MS },
    async () => {
      machine.patchbay("image", "add", "quay.io/kubevirt/cirros-container-disk-demo", DEBIAN_DISK);
      apply("quickstart-vm");
      await eventually(() => printableStatus("testvm") === "Stopped", { withinMs: CHANGE_MS });
      expect(machine.findVmi("testvm")).toBeUndefined();
      machine.patchbay("start", "testvm");
      const isRunning = (): boolean => machine.findVmi("testvm")?.status?.phase === "Running";
      await eventually(isRunning, { withinMs: DEBIAN_BOOT_MS });
      const nic = await eventually(
        () => machine.findVmi("testvm")?.status?.interfaces?.find(({ name }) => name === "default"),
        { withinMs: CHANGE_MS },
      );
      expect(nic).toMatchObject({ podInterfaceName: "eth0", linkState: "up" });
    },
  );

  test("with hardware that is not there is stored and not started, and all of it is named", async () => {
    apply("refused-vm");
    const message = await obstacleOf("refused");
    const fields = ["instancetype", "gpus", "hugepages"];
    expect(fields.filter((field) => !message.includes(field))).toEqual([]);
    expect(printableStatus("refused")).toBe("ErrorUnsupportedSpec");
    const events = machine.kubectl("get", "events", "-o", "jsonpath={.items[*].message}");
    expect(events).toContain(message);
    expect(machine.findVmi("refused")).toBeUndefined();
  });

  test("with a Service, EFI, rng, clock and a claim is refused for nothing, and waits for its claim", async () => {
    apply("pvc-vm-services");
    await eventually(() => printableStatus("web") === "ErrorPvcNotFound", {
      withinMs: CHANGE_MS,
    });
  });
});
