// SPDX-License-Identifier: Apache-2.0
// Users' manifests applied unchanged.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import { afterAll, describe, expect, test } from "vitest";
import { CHANGE_MS, machine } from "../machine.ts";

const MANIFESTS = join(import.meta.dirname, "manifests");
const START_MS = 120_000;

function apply(name: string): void {
  machine.kubectl("apply", "-f", join(MANIFESTS, `${name}.yaml`));
}

/** An image with an empty disk: only the guest's hardware is tested. */
function addEmptyImage(image: string): void {
  const directory = mkdtempSync(join(tmpdir(), "patchbay-empty-"));
  const disk = join(directory, "disk.qcow2");
  execFileSync("qemu-img", ["create", "-q", "-f", "qcow2", disk, "16M"]);
  machine.patchbay("image", "add", image, disk);
  rmSync(directory, { recursive: true });
}

function printableStatus(vm: string): string | undefined {
  return machine.findVm(vm)?.status?.printableStatus;
}

/** The start condition of a VM. */
async function syncErrorOf(vm: string): Promise<string> {
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
    // The empty guest ignores the shutdown, which would take its whole grace period.
    machine.kubectl("delete", "-f", file, "--ignore-not-found", "--wait=false");
  }
});

describe("a manifest", () => {
  test(
    "of a stopped VM is stored, and the VM runs behind the pod's address after its start",
    { timeout: START_MS },
    async () => {
      addEmptyImage("quay.io/kubevirt/cirros-container-disk-demo");
      apply("quickstart-vm");
      await eventually(() => printableStatus("testvm") === "Stopped", { withinMs: CHANGE_MS });
      expect(machine.findVmi("testvm")).toBeUndefined();
      machine.patchbay("start", "testvm", "--wait", "--timeout", "100s");
      expect(machine.findVmi("testvm")?.status?.phase).toBe("Running");
      const nic = await eventually(
        () => machine.findVmi("testvm")?.status?.interfaces?.find(({ name }) => name === "default"),
        { withinMs: CHANGE_MS },
      );
      expect(nic).toMatchObject({ podInterfaceName: "eth0", linkState: "up" });
      const stop = `/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/testvm/stop`;
      expect(machine.put(stop, { gracePeriod: 0 })).toMatchObject({ code: 0 });
      await eventually(() => machine.findVmi("testvm") === undefined, { withinMs: CHANGE_MS });
      const warnings = machine
        .events()
        .filter(
          ({ type, involvedObject }) => type === "Warning" && involvedObject.name === "testvm",
        );
      expect(warnings).toEqual([]);
    },
  );

  test("with unsupported hardware is stored and not started, and all of the fields are reported", async () => {
    apply("refused-vm");
    const message = await syncErrorOf("refused");
    const fields = ["accessCredentials", "gpus", "hugepages"];
    expect(fields.filter((field) => !message.includes(field))).toEqual([]);
    expect(printableStatus("refused")).toBe("ErrorUnsupportedSpec");
    // The event follows the status.
    const isReported = (): boolean =>
      machine.events().some((event) => event.message.includes(message));
    await eventually(isReported, { withinMs: CHANGE_MS });
    expect(machine.findVmi("refused")).toBeUndefined();
  });

  test("with a Service, EFI, rng, clock and a claim is accepted and waits for its claim", async () => {
    apply("pvc-vm-services");
    await eventually(() => printableStatus("web") === "ErrorPvcNotFound", {
      withinMs: CHANGE_MS,
    });
  });
});
