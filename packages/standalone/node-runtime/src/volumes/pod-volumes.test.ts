// SPDX-License-Identifier: Apache-2.0
import { KUBEVIRTS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { createFakeStore } from "@patchbay/kube/testing";
import { settle } from "@patchbay/os/testing";
import { describe, expect, test } from "vitest";
import { createHostDiskDirectoriesReader } from "./host-paths.ts";
import { makeEmptyDir } from "./empty-dir.ts";
import { prepareVolumes, removeVolumes } from "./pod-volumes.ts";
import { aConfigMap, aPodWith, aSecret, createVolumeBench, UID } from "./testing.ts";

const VOLUMES = `/pods/${UID}/volumes`;
const DISK = `${VOLUMES}/kubernetes.io~empty-dir/v`;
const MI = 2 ** 20;

/** Where the machine has the directory, and some that are like it. */
function hostDiskBench() {
  const bench = createVolumeBench();
  for (const path of ["/srv/disks", "/srv"]) bench.disk.setKind(path, "Directory");
  const setHostDisks = (directories: readonly string[] | undefined): void => {
    bench.setHostDisks(directories);
  };
  return { deps: bench.deps, disk: bench.disk, setHostDisks };
}

describe("an emptyDir", () => {
  test("on disk has a hard limit and the pod's group", async () => {
    const { deps, disk } = createVolumeBench();
    const securityContext = { fsGroup: 108 };
    const pod = aPodWith([{ name: "v", emptyDir: { sizeLimit: "10Mi" } }], { securityContext });
    expect(await prepareVolumes(deps, pod)).toEqual(new Map([["v", DISK]]));
    const image = `/pods/${UID}/disks/v.ext4`;
    expect(disk.mounts.get(DISK)).toEqual({ type: "image", image, sizeBytes: 10 * MI });
    expect(disk.directories.get(DISK)).toEqual({ uid: 0, gid: 108, mode: 0o2777 });
    expect(disk.directories.get(`/pods/${UID}`)?.mode).toBe(0o750);
  });

  test.each([
    {
      name: "the containers' ephemeral storage limits",
      limits: { "ephemeral-storage": "5Mi" },
      want: 5 * MI,
    },
    { name: "the default", limits: {}, want: 2 ** 31 },
  ])("without a size limit has a hard limit of $name", async ({ limits, want }) => {
    const { deps, disk } = createVolumeBench();
    const containers = [{ name: "main", image: "i", resources: { limits } }];
    await prepareVolumes(deps, aPodWith([{ name: "v", emptyDir: {} }], { containers }));
    expect(disk.mounts.get(DISK)?.sizeBytes).toBe(want);
  });

  test("is a plain directory on a kernel without loop devices, and remains one", async () => {
    const { deps, disk, log } = createVolumeBench();
    disk.refuseImages();
    const pod = aPodWith([{ name: "v", emptyDir: { sizeLimit: "10Mi" } }]);
    await prepareVolumes(deps, pod);
    await prepareVolumes(deps, pod);
    expect(disk.directories.has(DISK)).toBe(true);
    expect(disk.mounts.size).toBe(0);
    expect(log.lines.map(({ message }) => message)).toEqual([
      "volume has no file system of its own; its use is measured",
    ]);
  });

  test("waits while its files are mounted elsewhere, without deleting the files", async () => {
    const { deps, disk, files } = createVolumeBench();
    const image = `/pods/${UID}/disks/v.ext4`;
    await files.writeAtomic(image, "of the pod");
    const elsewhere = { access: { uid: 0, gid: 0, mode: 0o777 }, image, sizeBytes: MI };
    await disk.mountImage("/elsewhere", elsewhere);
    const pod = aPodWith([{ name: "v", emptyDir: {} }]);
    await expect(prepareVolumes(deps, pod)).rejects.toMatchObject({ code: "OS_FILE_IN_USE" });
    expect(disk.directories.has(DISK)).toBe(false);
    expect(await files.exists(image)).toBe(true);
    await disk.unmountAll("/elsewhere");
    await prepareVolumes(deps, pod);
    expect(disk.mounts.get(DISK)).toMatchObject({ type: "image", image });
  });

  test.each([
    { name: "its own limit", sizeLimit: "10Mi", want: 10 * MI },
    { name: "its containers' memory limits if they are lower", sizeLimit: "10Gi", want: 512 * MI },
  ])("in memory is limited to $name", async ({ sizeLimit, want }) => {
    const { deps, disk } = createVolumeBench();
    await prepareVolumes(
      deps,
      aPodWith([{ name: "v", emptyDir: { medium: "Memory", sizeLimit } }]),
    );
    expect(disk.mounts.get(DISK)).toEqual({ type: "memory", sizeBytes: want });
  });

  test.each([
    { emptyDir: { sizeLimit: "much" }, want: "sizeLimit much is not a quantity" },
    { emptyDir: { medium: "HugePages" }, want: "medium HugePages is not supported" },
  ])("is rejected: $want", async ({ emptyDir, want }) => {
    const { deps } = createVolumeBench();
    const make = { pod: aPodWith([]), name: "v", emptyDir, path: DISK };
    await expect(makeEmptyDir(deps, make)).rejects.toMatchObject({ details: { reason: want } });
  });
});

test("the use of a claim begins and ends with the pod", async () => {
  const { claims, deps } = createVolumeBench();
  const pod = aPodWith([{ name: "v", persistentVolumeClaim: { claimName: "data" } }]);
  expect(await prepareVolumes(deps, pod)).toEqual(new Map([["v", "/claims/data"]]));
  expect([...claims]).toEqual([`${UID} data`]);
  await removeVolumes(deps, UID);
  expect([...claims]).toEqual([]);
});

describe("volumes with generated contents", () => {
  test("are in memory except for a ConfigMap, with paths by volume name", async () => {
    const bench = createVolumeBench();
    const { deps, disk } = bench;
    bench.put(aConfigMap("c", { key: "1" }), aSecret("s", { key: "2" }));
    const paths = await prepareVolumes(
      deps,
      aPodWith([
        { name: "config", configMap: { name: "c" } },
        { name: "hidden", secret: { secretName: "s" } },
        {
          name: "about",
          downwardAPI: { items: [{ path: "n", fieldRef: { fieldPath: "metadata.name" } }] },
        },
        { name: "all", projected: { sources: [{ serviceAccountToken: { path: "token" } }] } },
      ]),
    );
    expect([...paths]).toEqual([
      ["config", `${VOLUMES}/kubernetes.io~configmap/config`],
      ["hidden", `${VOLUMES}/kubernetes.io~secret/hidden`],
      ["about", `${VOLUMES}/kubernetes.io~downward-api/about`],
      ["all", `${VOLUMES}/kubernetes.io~projected/all`],
    ]);
    const places = ["config/key", "hidden/key", "about/n", "all/token"];
    const [config, hidden, about, all] = [...paths.values()];
    const texts = [config, hidden, about, all].map((path, index) => {
      const file = (places[index] ?? "").split("/")[1] ?? "";
      return [`${path ?? ""}/${file}`, ["1", "2", "a", "token 1"][index]] as const;
    });
    expect(disk.texts).toEqual(new Map(texts));
    expect(new Set(disk.mounts.keys())).toEqual(new Set([hidden, about, all]));
  });

  test("wait for a missing object, and report its name", async () => {
    const bench = createVolumeBench();
    const { deps } = bench;
    const pod = aPodWith([{ name: "hidden", secret: { secretName: "s" } }]);
    const failure = { code: "RUNTIME_VOLUME_FAILED", details: { reason: 'secret "s" not found' } };
    await expect(prepareVolumes(deps, pod)).rejects.toMatchObject(failure);
    const told: string[] = [];
    deps.objects.onChange((uid) => told.push(uid));
    bench.put(aSecret("s", { key: "2" }));
    await settle();
    expect(told).toEqual([UID]);
    await prepareVolumes(deps, pod);
  });
});

describe("a hostPath of Patchbay's pods", () => {
  const product = { metadata: { name: "a", namespace: "patchbay", uid: UID } };
  const podWith = (hostPath: { path: string; type?: string }) => ({
    ...aPodWith([{ name: "v", hostPath }]),
    ...product,
  });

  test("is used as declared, and created if its type allows", async () => {
    const { deps, disk, files } = createVolumeBench();
    disk.setKind("/run/x.sock", "Socket");
    for (const [path, type] of [
      ["/run/x.sock", "Socket"],
      ["/run/x.sock", ""],
      ["/var/made", "DirectoryOrCreate"],
    ] as const) {
      expect(await prepareVolumes(deps, podWith({ path, type }))).toEqual(new Map([["v", path]]));
    }
    expect(disk.directories.get("/var/made")?.mode).toBe(0o755);
    await expect(
      prepareVolumes(deps, podWith({ path: "/var/file", type: "FileOrCreate" })),
    ).rejects.toMatchObject({ code: "RUNTIME_VOLUME_FAILED" }); // the fake's disk does not see the fake's files
    expect(files.paths).toEqual(["/var/file"]);
  });

  test.each([
    {
      path: "/run/x.sock",
      type: "Directory",
      want: "hostPath /run/x.sock is a Socket, not a Directory",
    },
    { path: "/none", type: "", want: "hostPath /none does not exist" },
    { path: "/run/../etc", type: "", want: "hostPath /run/../etc must be absolute and without .." },
    { path: "etc", type: "", want: "hostPath etc must be absolute and without .." },
    { path: "/none", type: "Pipe", want: "hostPath has no type Pipe" },
  ])("rejects $path of type $type", async ({ path, type, want }) => {
    const { deps, disk } = createVolumeBench();
    disk.setKind("/run/x.sock", "Socket");
    await expect(prepareVolumes(deps, podWith({ path, type }))).rejects.toMatchObject({
      details: { reason: want },
    });
  });
});

describe("a host disk directory", () => {
  const hostPath = { path: "/srv/disks", type: "Directory" };
  const pod = aPodWith([{ name: "v", hostPath }]);
  const place = `${VOLUMES}/kubernetes.io~host-path/v`;

  test("is mounted if the administrator allows it, and unmounted with the pod", async () => {
    const { deps, disk, setHostDisks } = hostDiskBench();
    setHostDisks(["/srv/disks"]);
    expect(await prepareVolumes(deps, pod)).toEqual(new Map([["v", place]]));
    expect([...disk.mounts]).toEqual([[place, { type: "directory", source: "/srv/disks" }]]);
    setHostDisks(undefined); // what is in use stays
    expect(await prepareVolumes(deps, pod)).toEqual(new Map([["v", place]]));
    await removeVolumes(deps, UID);
    expect(disk.mounts.size).toBe(0);
  });

  test.each([
    {
      directories: undefined,
      want: "hostPath /srv/disks: host disks are disabled; to enable them, add HostDisk to configuration.developerConfiguration.featureGates of the KubeVirt object",
    },
    {
      directories: [],
      want: "hostPath /srv/disks is not one of configuration.hostDiskDirectories of the KubeVirt object (none)",
    },
    {
      directories: ["/srv", "/srv/disks/more", "/srv/disks/"],
      want: "hostPath /srv/disks is not one of configuration.hostDiskDirectories of the KubeVirt object (/srv, /srv/disks/more, /srv/disks/)",
    },
  ])("is rejected if $directories are allowed", async ({ directories, want }) => {
    const { deps, disk, setHostDisks } = hostDiskBench();
    setHostDisks(directories);
    await expect(prepareVolumes(deps, pod)).rejects.toMatchObject({ details: { reason: want } });
    expect(disk.mounts.size).toBe(0);
  });

  test.each([
    { name: "has the feature gate and directories", gates: ["HostDisk"], want: ["/srv/disks"] },
    { name: "has no feature gate", gates: [], want: undefined },
  ])("reads the configuration each time: the configuration $name", async ({ gates, want }) => {
    const store = createFakeStore();
    const find = createHostDiskDirectoriesReader(store);
    expect(await find()).toBeUndefined();
    const developerConfiguration = { featureGates: gates };
    const configuration = { developerConfiguration, hostDiskDirectories: ["/srv/disks"] };
    store.put(KUBEVIRTS, {
      apiVersion: "kubevirt.io/v1",
      kind: "KubeVirt",
      spec: { configuration },
      metadata: { name: "kubevirt" },
    });
    expect(await find()).toEqual(want);
  });
});

test("an image's files are shown, and a volume of another kind is refused", async () => {
  const { deps, imageMounts } = createVolumeBench();
  const path = `${VOLUMES}/kubernetes.io~image/v`;
  await prepareVolumes(deps, aPodWith([{ name: "v", image: { reference: "guest" } }]));
  expect([...imageMounts]).toEqual([[path, "guest"]]);
  await expect(prepareVolumes(deps, aPodWith([{ name: "v" }]))).rejects.toMatchObject({
    details: { reason: "volumes of its kind are not supported" },
  });
});

test("attack 138: prepares few volumes of a namespace at a time, and delays no other namespace", async () => {
  const { deps } = createVolumeBench();
  const begun: string[] = [];
  const mount = (reference: string): Promise<void> => {
    begun.push(reference);
    return new Promise(() => undefined);
  };
  const podIn = (namespace: string, count: number): Pod => {
    const volumes = Array.from({ length: count }, (_, index) => ({
      name: `v${String(index)}`,
      image: { reference: namespace },
    }));
    const pod = aPodWith(volumes);
    return { ...pod, metadata: { ...pod.metadata, namespace, uid: namespace } };
  };
  const hanging = { ...deps, images: { ...deps.images, mount } };
  void prepareVolumes(hanging, podIn("hostile", 2000));
  for (const namespace of ["a", "b", "c"]) void prepareVolumes(hanging, podIn(namespace, 1));
  await new Promise((resolve) => setImmediate(resolve));
  expect(begun).toEqual([...new Array<string>(4).fill("hostile"), "a", "b", "c"]);
});

test("a pod that requests sockets has a socket directory until its removal", async () => {
  const { deps, sockets } = createVolumeBench();
  await prepareVolumes(deps, aPodWith([]));
  expect(sockets.listFiles(UID)).toBeUndefined();
  const resources = { limits: { "vhost-user.patchbay.io/sockets": "1" } };
  await prepareVolumes(
    deps,
    aPodWith([], { containers: [{ name: "main", image: "i", resources }] }),
  );
  expect(sockets.listFiles(UID)).toEqual([]);
  sockets.put(UID, "one.sock");
  await removeVolumes(deps, UID);
  expect(sockets.listFiles(UID)).toBeUndefined();
});

test("removal releases images, watches, tokens, mounts and the directory, and can be repeated", async () => {
  const bench = createVolumeBench();
  const { deps, disk, files, imageMounts, watches } = bench;
  bench.put(aSecret("s", { key: "2" }));
  const pod = aPodWith([
    { name: "v", emptyDir: {} },
    { name: "i", image: { reference: "guest" } },
    { name: "s", secret: { secretName: "s" } },
    { name: "t", projected: { sources: [{ serviceAccountToken: { path: "token" } }] } },
  ]);
  await prepareVolumes(deps, pod);
  await files.ensureDirectory(`/pods/${UID}`);
  for (let turn = 0; turn < 2; turn += 1) await removeVolumes(deps, UID);
  expect(imageMounts.size).toBe(0);
  expect([...watches.values()].map(({ isOpen }) => isOpen)).toEqual([false]);
  expect(deps.tokens.dueMs(UID)).toBeUndefined();
  expect(disk.mounts.size).toBe(0);
  expect(await files.exists(`/pods/${UID}`)).toBe(false);
});
