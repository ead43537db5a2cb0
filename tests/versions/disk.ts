// SPDX-License-Identifier: Apache-2.0
// Files on disk: the embedded API server's store as SQL, its backup, the settings, and rows of the agents' journals
// that have every field.
import { mkdtempSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createJournal, type JournalRow } from "@patchbay/cni";
import type { RememberedAddresses } from "@patchbay/core/nics";
import { createFakeFiles } from "@patchbay/os/testing";
import { createAddressStore } from "@patchbay/virt-handler/testing";
import type { KubeObject } from "../../packages/standalone/apiserver/src/objects/object.ts";
import { backupLines } from "../../packages/standalone/apiserver/src/storage/backup.ts";
import { openStore } from "../../packages/standalone/apiserver/src/storage/sqlite-store.ts";
import { buildPaths } from "../../packages/standalone/supervisor/src/data-dir/paths.ts";
import { storeSettings } from "../../packages/standalone/supervisor/src/settings/settings.ts";

export const POD_UID = "uid-1";

export const FULL_ROW: Required<JournalRow> = {
  podUid: POD_UID,
  podNamespace: "blue",
  podName: "virt-launcher-vm1-abcde",
  network: "blue/red",
  request: {
    containerId: "box1",
    netnsPath: "/run/netns/box1",
    interfaceName: "pod1234",
    config: { cniVersion: "1.0.0", name: "red", plugins: [{ type: "bridge", bridge: "br1" }] },
    args: [["K8S_POD_UID", POD_UID]],
    capabilityArgs: { mac: "02:00:00:00:00:01" },
  },
  selection: { name: "red", namespace: "blue", interface: "pod1234", mac: "02:00:00:00:00:01" },
  netnsInode: "4026531840",
  bootId: "2c1b3f1e-0000-4000-8000-000000000001",
  sequence: 2,
  state: "attached",
  result: {
    cniVersion: "1.0.0",
    interfaces: [{ name: "pod1234", mac: "02:00:00:00:00:01", sandbox: "/run/netns/box1" }],
    ips: [{ interface: 0, address: "10.9.0.5/24", gateway: "10.9.0.1" }],
  },
  paths: { routes: ["AAAA"], neighbors: [{ address: "10.9.0.1", mac: "02:00:00:00:00:09" }] },
  isDefault: true,
  isAdopted: true,
  defaultRoute: {
    gateways: ["10.9.0.1"],
    replaced: [{ version: 4, link: "eth0", gateway: "10.88.0.1", words: "AAAA" }],
  },
  nodeNics: [
    {
      name: "eth5",
      index: 7,
      kind: "",
      mac: "02:00:00:00:00:05",
      permanentMac: "02:00:00:00:00:05",
      mtu: 1500,
      up: true,
      alias: "",
      addresses: ["AAAA"],
      routes: ["AAAA"],
    },
  ],
  isUnmade: true,
  device: { id: "0000:05:00.1", resource: "example.org/vf", infoPath: "/devinfo/cni/a.json" },
  deviceInfo: { type: "pci", version: "1.1.0", pci: { "pci-address": "0000:05:00.1" } },
  failedRemovals: 3,
};

export const FULL_ADDRESSES: Required<RememberedAddresses> = {
  podInterfaceName: "pod1234",
  index: 7,
  addresses: ["10.9.0.5/24", "fd00::5/64"],
  routes: [{ destination: "0.0.0.0/0", gateway: "10.9.0.1" }],
  gatewayMac: "02:00:00:00:00:09",
  neighbors: [{ address: "10.9.0.1", mac: "02:00:00:00:00:09" }],
};

const OBJECTS: readonly KubeObject[] = ["one", "two", "gone"].map((name) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: {
    name,
    namespace: "blue",
    uid: `uid-${name}`,
    ...(name === "two" && {
      ownerReferences: [{ apiVersion: "v1", kind: "ConfigMap", name: "one", uid: "uid-one" }],
      deletionTimestamp: "2026-01-01T00:00:00Z",
      finalizers: ["example.org/hold"],
    }),
  },
  data: { text: 'It\'s "quoted"\n' },
}));

function addressOf({ metadata }: KubeObject) {
  return { bucket: "/configmaps", namespace: metadata.namespace ?? "", name: metadata.name };
}

function quote(value: unknown): string {
  return typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value);
}

/** The database as SQL text, which `createStoreFile` turns into a file again. */
function dumpSql(path: string): string {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const pragma = (name: string): string =>
      `PRAGMA ${name} = ${String(database.prepare(`PRAGMA ${name}`).get()?.[name])};\n`;
    const tables = database
      .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
      .all();
    const others = database
      .prepare("SELECT sql FROM sqlite_schema WHERE type != 'table' AND sql IS NOT NULL")
      .all();
    const rows = tables.flatMap(({ name }) =>
      database
        .prepare(`SELECT * FROM ${String(name)}`)
        .all()
        .map(
          (row) =>
            `INSERT INTO ${String(name)} VALUES (${Object.values(row).map(quote).join(", ")});\n`,
        ),
    );
    const schema = [...tables, ...others].map(({ sql }) => `${String(sql)};\n`);
    return [pragma("application_id"), pragma("user_version"), ...schema, ...rows].join("");
  } finally {
    database.close();
  }
}

export function createStoreFile(path: string, sql: string): void {
  const database = new DatabaseSync(path);
  database.exec(sql);
  database.close();
}

async function recordStore(): Promise<readonly (readonly [string, string])[]> {
  const directory = mkdtempSync(join(tmpdir(), "record-store-"));
  try {
    const path = join(directory, "store.sqlite");
    const store = openStore(path, (error) => {
      throw error;
    });
    for (const object of OBJECTS)
      await store.write((transaction) => transaction.put(addressOf(object), object));
    const [, , gone] = OBJECTS;
    if (gone !== undefined)
      await store.write((transaction) => transaction.remove(addressOf(gone), gone));
    const backup = [...backupLines(store)].join("");
    await store.close();
    return [
      ["store.sql", dumpSql(path)],
      ["backup.jsonl", backup],
    ];
  } finally {
    rmSync(directory, { recursive: true });
  }
}

async function recordJournals(): Promise<Readonly<Record<string, unknown>>> {
  const files = createFakeFiles();
  await createJournal(files, "/net-agent/journal").write(FULL_ROW);
  await createAddressStore(files, "/virt-handler/addresses").write(POD_UID, FULL_ADDRESSES);
  const texts = files.paths.map(async (path) => [path, await files.readText(path)] as const);
  return Object.fromEntries(await Promise.all(texts));
}

async function recordSettings(): Promise<string> {
  const files = createFakeFiles();
  const paths = buildPaths("/data");
  const machine = {
    hostname: "host",
    isPortFree: () => Promise.resolve(true),
    listLinks: () => Promise.resolve([]),
    listRoutes: () => Promise.resolve([]),
    listMachines: () => Promise.resolve([]),
    claimServiceSubnet: () => Promise.resolve(true),
  };
  const wanted = { apiAddress: "192.0.2.7", dataplaneGroup: 1801 };
  await storeSettings({ files, paths }, wanted, machine);
  return (await files.readText(paths.settings)) ?? "";
}

/** The files by path: texts, or values that become YAML. */
export async function recordDisk(): Promise<ReadonlyMap<string, unknown>> {
  return new Map<string, unknown>([
    ...(await recordStore()),
    ["journals.yaml", await recordJournals()],
    ["standalone.json", await recordSettings()],
  ]);
}
