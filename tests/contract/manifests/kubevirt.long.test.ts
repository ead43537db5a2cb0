// SPDX-License-Identifier: Apache-2.0
// KubeVirt users' manifests, some misspelled: the replies of the API server and virt-controller.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { EVENTS, VIRTUAL_MACHINES, type VirtualMachine } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { findSyncError } from "@patchbay/core/status";
import { keyOf, type KubeClient } from "@patchbay/kube";
import { eventually } from "@patchbay/support";
import { startTestServer, type TestServer } from "@patchbay/support/api-server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import {
  startController,
  type Controller,
} from "../../../packages/control-plane/virt-controller/src/testing/controllers.ts";

let server: TestServer;
let admin: KubeClient;
let controller: Controller;

beforeAll(async () => {
  server = await startTestServer();
  admin = await server.client("kubernetes-admin", ["system:masters"]);
  controller = await startController(server);
});

afterAll(async () => {
  await controller.stop();
  await server.close();
});

function readObjects(name: string): readonly KubeObject[] {
  const text = readFileSync(join(import.meta.dirname, "kubevirt", name), "utf8");
  return parseAllDocuments(text).map((document) => document.toJS() as KubeObject);
}

function isVm(object: KubeObject): object is VirtualMachine {
  return object.kind === VIRTUAL_MACHINES.kind;
}

function vmOf(name: string): VirtualMachine {
  const vm = readObjects(name).find(isVm);
  if (vm === undefined) throw new RangeError(`${name} has no VM`);
  return { ...vm, metadata: { ...vm.metadata, namespace: "default" } };
}

/** Like current kubectl: unknown fields are rejected. */
async function createStrictly(object: KubeObject): Promise<void> {
  const [group = "", version = ""] = object.apiVersion.split("/");
  const resource = `${object.kind.toLowerCase()}s`;
  const path = `/apis/${group}/${version}/namespaces/default/${resource}?fieldValidation=Strict`;
  await admin.requestRaw({ method: "POST", path, body: object });
}

const SPEC = "spec.template.spec";
const NO_BOOT = `${SPEC}.domain.devices.disks`;

/** The fields that a condition's message names. */
function fieldsNamedBy(message: string): readonly string[] {
  const named = message.split("; ").map((part) => part.split(": ")[0] ?? "");
  return named.filter((part) => part.startsWith("spec.")).sort();
}

describe("stores a KubeVirt manifest as it is and does not start it with other hardware", () => {
  test.each([
    {
      file: "refused-vm.yaml",
      printed: "ErrorUnsupportedSpec",
      fields: [
        NO_BOOT,
        `${SPEC}.domain.memory.hugepages`,
        `${SPEC}.domain.devices.gpus`,
        `${SPEC}.accessCredentials`,
      ],
    },
  ])("$file: $printed, and every field is named", async ({ file, printed, fields }) => {
    const vm = vmOf(file);
    await createStrictly(vm);
    const { status } = await eventually(
      async () => {
        const stored = await admin.store.find(VIRTUAL_MACHINES, keyOf(vm));
        return stored?.status?.printableStatus === printed ? stored : undefined;
      },
      { withinMs: 5000 },
    );
    const message = findSyncError(status?.conditions)?.message ?? "";
    expect(fieldsNamedBy(message)).toEqual([...fields].sort());
    const stored = await admin.store.find(VIRTUAL_MACHINES, keyOf(vm));
    expect(stored?.spec).toEqual(vm.spec);
    const event = await eventually(
      async () => {
        const { items } = await admin.store.list(EVENTS, { namespace: "default" });
        return items.find(({ involvedObject }) => involvedObject.name === vm.metadata.name);
      },
      { withinMs: 5000 },
    );
    expect([event.type, event.message]).toEqual(["Warning", message]);
  });
});

describe("a KubeVirt manifest whose fields are all supported", () => {
  test.each([
    { file: "quickstart-vm.yaml", printed: "Stopped", missing: [] },
    {
      file: "pvc-vm-services.yaml",
      printed: "ErrorPvcNotFound",
      missing: ["spec.volumes[0].persistentVolumeClaim"],
    },
  ])("stores $file, which is $printed", async ({ file, printed, missing }) => {
    const vm = vmOf(file);
    await createStrictly(vm);
    const stored = await eventually(
      async () => {
        const found = await admin.store.find(VIRTUAL_MACHINES, keyOf(vm));
        return found?.status?.printableStatus === printed ? found : undefined;
      },
      { withinMs: 5000 },
    );
    expect(stored.spec).toEqual(vm.spec);
    const message = findSyncError(stored.status?.conditions)?.message ?? "";
    expect(fieldsNamedBy(message)).toEqual(missing);
  });
});

test.each([
  ["spec.template.spec.domain.devices.interfacs", { domain: { devices: { interfacs: [] } } }],
  ["spec.template.spec.domain.memory.gest", { domain: { memory: { gest: "1Gi" } } }],
  ["spec.template.spec.network", { domain: {}, network: [] }],
  ["spec.template.spec.networks[0].mutlus", { domain: {}, networks: [{ name: "a", mutlus: {} }] }],
])("rejects a misspelled field by its name: %s", async (field, spec) => {
  const { apiVersion, kind } = vmOf("refused-vm.yaml");
  const metadata = { name: "misspelt", namespace: "default" };
  const vm = { apiVersion, kind, metadata, spec: { running: false, template: { spec } } };
  await expect(createStrictly(vm)).rejects.toThrow(`unknown field "${field}"`);
});
