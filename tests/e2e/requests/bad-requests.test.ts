// SPDX-License-Identifier: Apache-2.0
// Requests that cannot be executed: the right code, a Status that names the field, no change.
import { join } from "node:path";
import { AppError } from "@patchbay/base";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { vmiManifest } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addInterface, expectReady, machine, SUBRESOURCES } from "../machine.ts";

const ALPHA = `${SUBRESOURCES}/virtualmachines/alpha`;

let client: KubeClient;

beforeAll(async () => {
  const config = await loadKubeConfig({ kubeconfig: join(machine.dataDir, "kubeconfig") });
  client = createKubeClient(config, { logger: createSilentLogger(), clock: createClock() });
  addInterface("alpha", { name: "base", network: "blue" });
  await expectReady("alpha", "base");
  // A missing image: the VMI never runs.
  const manifest = vmiManifest({ name: "waiting" });
  const text = JSON.stringify(manifest).replace('"image":"guest"', '"image":"nowhere"');
  machine.apply(JSON.parse(text));
});

afterAll(async () => {
  await client.close();
  machine.delete("vmi", "waiting");
});

interface Refused {
  readonly name: string;
  readonly path: string;
  readonly body: unknown;
  readonly status: number;
  /** The Status's message and its causes with fields. */
  readonly says: readonly RegExp[];
}

const REFUSED: readonly Refused[] = [
  {
    name: "unknown network",
    path: `${ALPHA}/addinterface`,
    body: { name: "new", networkAttachmentDefinitionName: "nowhere" },
    status: 422,
    says: [/networkAttachmentDefinitionName: .*nowhere/],
  },
  {
    name: "duplicate name: used on another network",
    path: `${ALPHA}/addinterface`,
    body: { name: "base", networkAttachmentDefinitionName: "red" },
    status: 409,
    says: [/base/],
  },
  {
    name: "invalid name",
    path: `${ALPHA}/addinterface`,
    body: { name: "no good!", networkAttachmentDefinitionName: "blue" },
    status: 422,
    says: [/name: .*can only contain/],
  },
  {
    name: "missing network",
    path: `${ALPHA}/addinterface`,
    body: { name: "new" },
    status: 400,
    says: [/networkAttachmentDefinitionName/],
  },
  {
    name: "missing name",
    path: `${ALPHA}/removeinterface`,
    body: {},
    status: 400,
    says: [/name/],
  },
  {
    name: "NIC of the default network",
    path: `${ALPHA}/removeinterface`,
    body: { name: "default" },
    status: 422,
    says: [/name: .*default network/],
  },
  {
    name: "VMI that is not running",
    path: `${SUBRESOURCES}/virtualmachineinstances/waiting/addinterface`,
    body: { name: "new", networkAttachmentDefinitionName: "blue" },
    status: 409,
    says: [/not running/],
  },
  {
    name: "missing VM",
    path: `${SUBRESOURCES}/virtualmachines/nobody/addinterface`,
    body: { name: "new", networkAttachmentDefinitionName: "blue" },
    status: 404,
    says: [/nobody/],
  },
];

describe("rejects a request", () => {
  test.each(REFUSED)("$name: $status", async ({ path, body, status, says }) => {
    const before = machine.findVm("alpha")?.metadata.generation;
    const refusal = await client
      .requestRaw({ method: "PUT", path, body })
      .then(() => undefined)
      .catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(AppError);
    // The assertion above reports it.
    const { details } = refusal as AppError;
    expect(details["status"]).toBe(status);
    const text = `${String(details["message"])}\n${String(details["causes"])}`;
    for (const pattern of says) expect(text).toMatch(pattern);
    expect(machine.findVm("alpha")?.metadata.generation).toBe(before);
  });

  test("rejects a user's edit of a VMI that a VM owns, with the command to use instead", () => {
    const patch = JSON.stringify([{ op: "remove", path: "/spec/networks/0" }]);
    const { code, stderr } = machine.try([
      "kubectl",
      "patch",
      "vmi",
      "alpha",
      "--type=json",
      "-p",
      patch,
    ]);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/kubectl patch vm alpha/);
  });
});
