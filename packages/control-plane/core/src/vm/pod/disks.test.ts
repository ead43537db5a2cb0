// SPDX-License-Identifier: Apache-2.0
// What of a launcher pod each kind of disk needs, and what prepare-disks is told.
import type { VmiSpec, Volume } from "@patchbay/api";
import type { Container, PersistentVolumeClaim, Pod } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { aClaim, SETTINGS } from "../../testing/launcher-facts.ts";
import { hasImageVolume, hasMissingImage } from "./image-files.ts";
import { buildLauncherPod, type LauncherRequest } from "./launcher-pod.ts";

const REQUEST: LauncherRequest = {
  ...SETTINGS,
  ports: 0,
  claims: new Map(),
  definitions: new Map(),
  bindings: {},
  allowsHooks: false,
};

function podOf(volumes: Volume[], more: Partial<LauncherRequest> & Partial<VmiSpec> = {}): Pod {
  const { claims = REQUEST.claims, supportsImageVolumes = true, ...spec } = more;
  const vmi = { ...aVmi(), spec: { domain: {}, volumes, ...spec } };
  return buildLauncherPod(vmi, { ...REQUEST, claims, supportsImageVolumes });
}

function claims(...all: readonly PersistentVolumeClaim[]): LauncherRequest["claims"] {
  return new Map(all.map((claim) => [claim.metadata.name, claim]));
}

function preparing({ spec }: Pod): Container | undefined {
  return spec.initContainers?.find(({ name }) => name === "prepare-disks");
}

function compute({ spec }: Pod): Container | undefined {
  return spec.containers[0];
}

/** Beside those of every launcher. */
function ownMounts(container: Container | undefined): Container["volumeMounts"] {
  return container?.volumeMounts?.filter(({ mountPath }) => /volumes|disks$/.test(mountPath));
}

const DISKS = { name: "disks", mountPath: "/run/disks" };
const GIB = String(2 ** 30);
const LIMIT = String(2 ** 44);

describe("a containerDisk", () => {
  const volume: Volume = { name: "root", containerDisk: { image: "debian", imagePullSecret: "s" } };
  const image = { name: "image-0", mountPath: "/run/volumes/root", readOnly: true };
  const text = [
    "direct",
    "overlay",
    "root",
    "/run/disks/root.qcow2",
    "/run/volumes/root/disk",
    LIMIT,
  ];

  test("is an image volume if the API server supports it", () => {
    const pod = podOf([volume]);
    expect(pod.spec.volumes).toContainEqual({
      name: "image-0",
      image: { reference: "debian", pullPolicy: "IfNotPresent" },
    });
    expect(pod.spec.initContainers?.map(({ name }) => name)).toEqual(["prepare-disks"]);
    expect(preparing(pod)?.args).toEqual(text);
    expect(ownMounts(preparing(pod))).toEqual([DISKS, image]);
    expect(ownMounts(compute(pod))).toEqual([image, DISKS]);
    expect(pod.spec.imagePullSecrets).toEqual([{ name: "s" }]);
    expect(hasImageVolume(pod)).toBe(true);
  });

  test("otherwise is copied together with other containerDisks and the kernel", () => {
    const path = "images/../a.img";
    const other: Volume = {
      name: "b",
      containerDisk: { image: "i", path, imagePullPolicy: "Never" },
    };
    const container = { image: "guest" };
    const domain = { firmware: { kernelBoot: { container } } };
    const pod = podOf([volume, other], { supportsImageVolumes: false, domain });
    const inits = pod.spec.initContainers ?? [];
    expect(inits.map(({ name, image: of }) => [name, of])).toEqual([
      ["copy-files", "launcher"],
      ["kernel-boot", "guest"],
      ["image-0", "debian"],
      ["image-1", "i"],
      ["prepare-disks", "launcher"],
    ]);
    const copy = "/patchbay/bin/copy-files";
    expect(inits.slice(2, 4).map(({ command }) => command)).toEqual([
      [copy, "--disk", "/patchbay/files"],
      [copy, "--disk", "/patchbay/files", "/a.img"],
    ]);
    expect(inits.map(({ imagePullPolicy }) => imagePullPolicy).slice(2, 4)).toEqual([
      "IfNotPresent",
      "Never",
    ]);
    expect(preparing(pod)?.args?.slice(-2)).toEqual(["/run/volumes/b/a.img", LIMIT]);
    expect(ownMounts(preparing(pod))?.map(({ mountPath }) => mountPath)).toEqual([
      "/run/disks",
      "/run/volumes/root",
      "/run/volumes/b",
    ]);
    expect(hasMissingImage(pod)).toBe(false);
  });

  test("counts as lost if the server drops its volume's image", () => {
    const pod = podOf([volume]);
    const dropped = { ...pod, spec: { ...pod.spec, volumes: [{ name: "image-0", emptyDir: {} }] } };
    expect(hasMissingImage(dropped)).toBe(true);
  });
});

interface ClaimCase {
  readonly title: string;
  readonly volume: Omit<Volume, "name">;
  readonly claim: PersistentVolumeClaim;
  readonly words: readonly string[];
  readonly mounts: Container["volumeMounts"];
}

const DIR = { name: "volume-0", mountPath: "/run/volumes/a" };
const BLOCK = aClaim("c", { spec: { volumeMode: "Block" } });

describe("a claim", () => {
  test.each<ClaimCase>([
    {
      title: "with a file system",
      volume: { persistentVolumeClaim: { claimName: "c" } },
      claim: aClaim("c"),
      words: ["direct", "file", "a", "/run/volumes/a/disk.img", GIB, "make"],
      mounts: [DIR],
    },
    {
      title: "that is read-only",
      volume: { persistentVolumeClaim: { claimName: "c", readOnly: true } },
      claim: aClaim("c"),
      words: ["direct", "file", "a", "/run/volumes/a/disk.img", GIB, "readonly"],
      mounts: [{ ...DIR, readOnly: true }],
    },
    {
      title: "of a DataVolume, not bound yet",
      volume: { dataVolume: { name: "c" } },
      claim: aClaim("c", { status: { phase: "Pending" } }),
      words: ["direct", "file", "a", "/run/volumes/a/disk.img", GIB],
      mounts: [DIR],
    },
    {
      title: "under an overlay",
      volume: { ephemeral: { persistentVolumeClaim: { claimName: "c" } } },
      claim: aClaim("c"),
      words: ["direct", "overlay", "a", "/run/disks/a.qcow2", "/run/volumes/a/disk.img", GIB],
      mounts: [{ ...DIR, readOnly: true }],
    },
  ])("$title is mounted", ({ volume, claim, words: text, mounts = [] }) => {
    const pod = podOf([{ name: "a", ...volume }], { claims: claims(claim) });
    expect(preparing(pod)?.args).toEqual(text);
    expect(ownMounts(preparing(pod))).toEqual([DISKS, ...mounts]);
    expect(ownMounts(compute(pod))).toEqual([DISKS, ...mounts]);
    expect(pod.spec.volumes).toContainEqual(
      expect.objectContaining({
        name: "volume-0",
        persistentVolumeClaim: expect.objectContaining({ claimName: "c" }) as object,
      }),
    );
  });

  test.each([
    {
      volume: { persistentVolumeClaim: { claimName: "c" } },
      words: ["direct", "block", "a", "/dev/volumes/a"],
    },
    {
      volume: { ephemeral: { persistentVolumeClaim: { claimName: "c" } } },
      words: ["direct", "overlay", "a", "/run/disks/a.qcow2", "/dev/volumes/a", String(2 ** 44)],
    },
  ])("of mode Block is mounted as a device: $words", ({ volume, words: text }) => {
    const pod = podOf([{ name: "a", ...volume }], { claims: claims({ ...BLOCK, status: {} }) });
    const devices = [{ name: "volume-0", devicePath: "/dev/volumes/a" }];
    expect(preparing(pod)?.args).toEqual(text);
    expect(preparing(pod)?.volumeDevices).toEqual(devices);
    expect(compute(pod)?.volumeDevices).toEqual(devices);
    expect(ownMounts(compute(pod))).toEqual([DISKS]);
  });
});

test("mounts the directory of a host file, which must exist", () => {
  const hostDisk = { path: "/data/d.img", type: "DiskOrCreate", capacity: "1Gi" };
  const pod = podOf([{ name: "a", hostDisk }]);
  expect(preparing(pod)?.args).toEqual([
    "direct",
    "file",
    "a",
    "/run/volumes/a/d.img",
    GIB,
    "make",
  ]);
  expect(pod.spec.volumes).toContainEqual({
    name: "volume-0",
    hostPath: { path: "/data", type: "Directory" },
  });
  const old = podOf([{ name: "a", hostDisk: { ...hostDisk, type: "Disk", capacity: "" } }]);
  expect(preparing(old)?.args?.slice(4)).toEqual([LIMIT]);
});

test("creates disks one after the other, with the largest of their resource requests", () => {
  const pod = podOf([
    { name: "a", emptyDisk: { capacity: "1Gi" } },
    { name: "b", emptyDisk: { capacity: "1.5Ki" } },
  ]);
  expect(preparing(pod)?.args).toEqual([
    "direct",
    "empty",
    "a",
    "/run/disks/a.qcow2",
    GIB,
    "--",
    "direct",
    "empty",
    "b",
    "/run/disks/b.qcow2",
    "1536",
  ]);
  // 1024 + 1, and 64 beside each disk and beside all.
  expect(pod.spec.volumes).toContainEqual({ name: "disks", emptyDir: { sizeLimit: "1217Mi" } });
  expect(compute(pod)?.resources?.limits).toMatchObject({ "ephemeral-storage": "1395Mi" });
});

test.each([
  { cache: undefined, isTried: true },
  { cache: "none", isTried: true },
  { cache: "directsync", isTried: true },
  { cache: "writethrough", isTried: false },
  { cache: "writeback", isTried: false },
])("tries direct I/O for cache $cache: $isTried", (row) => {
  const disk = { name: "a", ...(row.cache === undefined ? {} : { cache: row.cache }) };
  const domain = { ...aVmi().spec.domain, devices: { disks: [disk] } };
  const pod = podOf([{ name: "a", emptyDisk: { capacity: "1Gi" } }], { domain });
  const text = ["empty", "a", "/run/disks/a.qcow2", GIB];
  expect(preparing(pod)?.args).toEqual(row.isTried ? ["direct", ...text] : text);
});

describe("cloud-init's data", () => {
  test("from the VM is passed in variables without expansion", () => {
    const cloudInitNoCloud = {
      userData: "#cloud-config\nx: $(HOME) $$",
      networkDataBase64: "bjo=",
    };
    const prepare = preparing(podOf([{ name: "ci", cloudInitNoCloud }], { hostname: "web-1.a" }));
    expect(prepare?.args).toEqual([
      "direct",
      "iso",
      "ci",
      "/run/disks/ci.iso",
      "cidata",
      "meta-data=text:DISK_0_META_DATA",
      "user-data=text:DISK_0_USER_DATA",
      "network-config=base64:DISK_0_NETWORK_CONFIG",
    ]);
    expect(prepare?.env).toEqual([
      {
        name: "DISK_0_META_DATA",
        value: '{"instance-id":"vm1.default","local-hostname":"web-1"}',
      },
      { name: "DISK_0_USER_DATA", value: "#cloud-config\nx: $$(HOME) $$$$" },
      { name: "DISK_0_NETWORK_CONFIG", value: "bjo=" },
    ]);
  });

  test("from Secrets is passed in volumes that the launcher does not mount", () => {
    const cloudInitConfigDrive = { secretRef: { name: "u" }, networkDataSecretRef: { name: "n" } };
    const pod = podOf([{ name: "ci", cloudInitConfigDrive }]);
    const prepare = preparing(pod);
    const latest = "openstack/latest";
    expect(prepare?.args).toEqual([
      "direct",
      "iso",
      "ci",
      "/run/disks/ci.iso",
      "config-2",
      `${latest}/meta_data.json=text:DISK_0_OPENSTACK_LATEST_META_DATA_JSON`,
      `${latest}/user_data=file:/run/volumes/ci/userdata/userdata`,
      `${latest}/user_data=file:/run/volumes/ci/userdata/userData`,
      `${latest}/network_data.json=file:/run/volumes/ci/networkdata/networkdata`,
      `${latest}/network_data.json=file:/run/volumes/ci/networkdata/networkData`,
    ]);
    expect(prepare?.env?.[0]?.value).toBe(
      '{"instance_id":"vm1.default","hostname":"vm1","uuid":"vm1.default"}',
    );
    expect(ownMounts(prepare)?.map(({ name }) => name)).toEqual([
      "disks",
      "volume-0-userdata",
      "volume-0-networkdata",
    ]);
    expect(ownMounts(compute(pod))).toEqual([DISKS]);
    expect(pod.spec.volumes?.slice(-2)).toEqual([
      { name: "volume-0-userdata", secret: { secretName: "u" } },
      { name: "volume-0-networkdata", secret: { secretName: "n" } },
    ]);
  });

  test("contains empty user data by default, because cloud-init requires the file", () => {
    const cloudInitNoCloud = { networkData: "version: 2" };
    const prepare = preparing(podOf([{ name: "ci", cloudInitNoCloud }]));
    expect(prepare?.env?.map(({ name, value }) => [name, value]).slice(1)).toEqual([
      ["DISK_0_USER_DATA", ""],
      ["DISK_0_NETWORK_CONFIG", "version: 2"],
    ]);
  });
});

test.each<{ volume: Omit<Volume, "name">; source: object; label: string }>([
  {
    volume: { configMap: { name: "m", optional: true } },
    source: { configMap: { name: "m", optional: true } },
    label: "cfgdata",
  },
  {
    volume: { secret: { secretName: "s", volumeLabel: "keys" } },
    source: { secret: { secretName: "s", optional: false } },
    label: "keys",
  },
  {
    volume: {
      downwardAPI: {
        fields: [
          { path: "name", fieldRef: { fieldPath: "metadata.name" } },
          { path: "cpu", resourceFieldRef: { resource: "limits.cpu" } },
        ],
      },
    },
    source: {
      downwardAPI: {
        items: [
          { path: "name", fieldRef: { fieldPath: "metadata.name" } },
          { path: "cpu", resourceFieldRef: { containerName: "compute", resource: "limits.cpu" } },
        ],
      },
    },
    label: "cfgdata",
  },
])("$source becomes a small disk, and the launcher mounts the disk only", (input) => {
  const pod = podOf([{ name: "f", ...input.volume }]);
  expect(pod.spec.volumes?.at(-1)).toEqual({ name: "volume-0", ...input.source });
  expect(preparing(pod)?.args).toEqual([
    "direct",
    "iso",
    "f",
    "/run/disks/f.iso",
    input.label,
    "tree:/run/volumes/f",
  ]);
  expect(ownMounts(compute(pod))).toEqual([DISKS]);
});
