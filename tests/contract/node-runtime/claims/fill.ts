// SPDX-License-Identifier: Apache-2.0
// DataVolumes of a machine, and the disks of their claims.
import { parseManifests, readManifests } from "@patchbay/manifests";
import { createFiles } from "@patchbay/os";
import { eventually } from "@patchbay/support";
import { shellContainer, shellPod, type RuntimeMachine } from "../machine.ts";

const DATA_VOLUMES = "/apis/cdi.kubevirt.io/v1beta1/namespaces/default/datavolumes";
const MEBIBYTE = 2 ** 20;
const FILL_MS = 60_000;

/** Serves the storage class and DataVolumes, as `patchbay up` does. */
export async function serveStorage({ api }: RuntimeMachine): Promise<void> {
  const manifests = parseManifests(await readManifests(createFiles(), "standalone"));
  const [local] = manifests.filter(({ kind }) => kind === "StorageClass");
  await api.post("/apis/storage.k8s.io/v1/storageclasses", local);
  const [definition] = manifests.filter(({ metadata }) => metadata.name.startsWith("datavolumes."));
  await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
}

export async function fill(machine: RuntimeMachine, name: string, source: object): Promise<void> {
  const storage = { resources: { requests: { storage: "16Mi" } } };
  const { code, body } = await machine.api.post(DATA_VOLUMES, {
    apiVersion: "cdi.kubevirt.io/v1beta1",
    kind: "DataVolume",
    metadata: { name },
    spec: { source, storage },
  });
  if (code !== 201) throw new Error(JSON.stringify(body));
}

export async function isFilled(machine: RuntimeMachine, name: string): Promise<void> {
  await eventually(
    async () => {
      const { status } = (await machine.api.get(`${DATA_VOLUMES}/${name}`)).body;
      if (JSON.stringify(status).includes('"phase":"Succeeded"')) return true;
      throw new Error(JSON.stringify(status));
    },
    { withinMs: FILL_MS },
  );
}

/** Deletes all of them with their claims. */
export async function deleteDataVolumes({ api }: RuntimeMachine): Promise<void> {
  for (const { metadata } of (await api.get(DATA_VOLUMES)).body.items) {
    await api.delete(`${DATA_VOLUMES}/${metadata.name}`);
  }
}

/** A 4 MiB disk that begins with the text. */
export function diskOf(text: string): Buffer {
  const disk = Buffer.alloc(4 * MEBIBYTE);
  disk.write(text);
  return disk;
}

/** A pod that succeeds if the claim's disk begins with the text. */
export function readerOf(claimName: string, text: string): object {
  const script = `test "$(head -c ${String(text.length)} /v/disk.img)" = ${text}`;
  return shellPod(`reader-of-${claimName}`, "", {
    terminationGracePeriodSeconds: 1,
    containers: [{ ...shellContainer(script), volumeMounts: [{ name: "v", mountPath: "/v" }] }],
    volumes: [{ name: "v", persistentVolumeClaim: { claimName } }],
  });
}
