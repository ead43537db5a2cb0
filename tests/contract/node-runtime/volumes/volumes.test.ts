// SPDX-License-Identifier: Apache-2.0
// Volumes on a real disk show the objects of a real API server, with a node's rights.
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  statfsSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { CONFIG_MAPS, customResourceDefinitions, SECRETS } from "@patchbay/api";
import { createClaimDisk, createProcessRunner } from "@patchbay/os";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { read, VolumeNode } from "./node.ts";

const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KUBEVIRTS_PATH = "/apis/kubevirt.io/v1/namespaces/default/kubevirts";
const KUBEVIRT = `${KUBEVIRTS_PATH}/kubevirt`;
const CORE = "/api/v1/namespaces/default";
const TIMEOUT = { withinMs: 10_000 };
const MEBIBYTE = 2 ** 20;
let node: VolumeNode;

beforeAll(async () => {
  node = await VolumeNode.start();
  node.keepCurrent();
});
afterAll(async () => {
  await node.close();
});

async function putConfigMap(name: string, data: Readonly<Record<string, string>>): Promise<void> {
  const object = { metadata: { name }, data };
  const { code } = await node.api.put(`${CORE}/configmaps/${name}`, object);
  if (code === 404) await node.api.post(`${CORE}/configmaps`, object);
}

describe("a pod's token", () => {
  test("is in the standard place, belongs to the pod's account, and ends with the pod", async () => {
    const pod = await node.createPod("talker", { automountServiceAccountToken: true });
    const paths = await node.prepare(pod);
    const [volume = ""] = paths.values();
    const token = read(volume, "token") ?? "";
    expect(read(volume, "namespace")).toBe("default");
    expect(read(volume, "ca.crt")).toBe(node.api.authority.certPem);
    const ask = () =>
      node.api.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {
        token,
        body: {},
      });
    const { body } = await ask();
    expect(body.status).toMatchObject({
      userInfo: {
        username: "system:serviceaccount:default:default",
        extra: { "authentication.kubernetes.io/pod-name": ["talker"] },
      },
    });
    expect(await node.deps.disk.listMounts(volume)).toEqual([volume]); // never on the disk
    await node.api.delete(`${CORE}/pods/talker?gracePeriodSeconds=0`);
    expect((await ask()).code).toBe(401);
    await node.remove(pod);
  });

  test("is issued to the pod's node only", async () => {
    const foreign = await node.createPod("elsewhere", { nodeName: "node-2" });
    const refused = { code: "KUBE_FORBIDDEN" };
    const { tokens } = node.deps;
    // Without a pod of that account the authorizer rejects it; otherwise admission does.
    await expect(tokens.find(foreign, { path: "token" })).rejects.toMatchObject(refused);
    await node.createPod("here", {});
    await expect(tokens.find(foreign, { path: "token" })).rejects.toMatchObject(refused);
    await node.remove(foreign);
  });
});

describe("a claim", () => {
  const CLAIMS = `${CORE}/persistentvolumeclaims`;
  const named = (claimName: string) => ({
    volumes: [{ name: "v", persistentVolumeClaim: { claimName } }],
  });

  /** A claim after its provisioning, and its storage. */
  async function bind(name: string): Promise<void> {
    const spec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Mi" } } };
    const claim = (await node.api.post(CLAIMS, { metadata: { name }, spec })).body;
    const { uid } = claim.metadata;
    const handle = `pvc-${uid}`;
    await node.api.post("/api/v1/persistentvolumes", {
      metadata: { name: handle },
      spec: {
        accessModes: ["ReadWriteOnce"],
        capacity: { storage: "1Mi" },
        claimRef: { namespace: "default", name, uid },
        csi: { driver: "patchbay.io/local", volumeHandle: handle },
      },
    });
    await node.api.patch(`${CLAIMS}/${name}`, { spec: { volumeName: handle } });
    await node.api.patch(`${CLAIMS}/${name}/status`, { status: { phase: "Bound" } });
    const directory = join(node.directory, "claims", handle);
    mkdirSync(directory, { recursive: true });
    const size = { kind: "files", sizeBytes: MEBIBYTE } as const;
    await createClaimDisk({ runner: createProcessRunner() }).make(
      join(directory, "volume.img"),
      size,
    );
  }

  test("is mounted with the rights of its node, which cannot read other claims", async () => {
    await bind("mine");
    await bind("foreign");
    const pod = await node.createPod("claimer", {
      ...named("mine"),
      securityContext: { fsGroup: 1234 },
    });
    const [path = ""] = (await node.prepare(pod)).values();
    expect(statSync(path)).toMatchObject({ uid: 0, gid: 1234 });
    const other = await node.createPod("foreigner", { ...named("foreign"), nodeName: "node-2" });
    await expect(node.prepare(other)).rejects.toMatchObject({ code: "KUBE_FORBIDDEN" });
    await node.remove(pod);
    await node.remove(other);
    expect(await node.deps.disk.listMounts(join(node.directory, "claims"))).toEqual([]);
  });
});

describe("a node directory with VM disks", () => {
  const path = (name: string): string => join(node.directory, name);
  const request = (name: string) => ({
    volumes: [{ name: "v", hostPath: { path: path(name), type: "Directory" } }],
  });
  const configure = async (featureGates: readonly string[], ...directories: string[]) => {
    const developerConfiguration = { featureGates };
    const configuration = { developerConfiguration, hostDiskDirectories: directories.map(path) };
    const { code, text } = await node.api.patch(KUBEVIRT, { spec: { configuration } });
    if (code !== 200) throw new Error(text);
  };

  beforeAll(async () => {
    for (const definition of customResourceDefinitions()) await node.api.post(CRDS, definition);
    await eventually(async () => (await node.api.ask("GET", KUBEVIRTS_PATH)).code === 200, TIMEOUT);
    const metadata = { name: "kubevirt" };
    const object = { apiVersion: "kubevirt.io/v1", kind: "KubeVirt", metadata, spec: {} };
    const { code, text } = await node.api.post(KUBEVIRTS_PATH, object);
    if (code !== 201) throw new Error(text);
  });

  test("is mounted while the configuration names it, without nested mounts", async () => {
    mkdirSync(path("disks"));
    writeFileSync(path("disks/disk.img"), "data");
    const pod = await node.createPod("host-disk", request("disks"));
    const failed = { code: "RUNTIME_VOLUME_FAILED" };
    await expect(node.prepare(pod)).rejects.toMatchObject(failed);
    await configure([], "disks");
    await expect(node.prepare(pod)).rejects.toMatchObject(failed);
    await configure(["HostDisk"], "other");
    await expect(node.prepare(pod)).rejects.toMatchObject(failed);
    await configure(["HostDisk"], "other", "disks");
    const [shown = ""] = (await node.prepare(pod)).values();
    expect(await node.deps.disk.listMounts(node.podDirectory(pod))).toEqual([shown]);
    writeFileSync(join(shown, "disk.img"), "more");
    await node.remove(pod);
    expect(existsSync(node.podDirectory(pod))).toBe(false);
    expect(read(path("disks/disk.img"))).toBe("more");
  });

  test("is rejected when a link has replaced it", async () => {
    await configure(["HostDisk"], "outer", "outer/inner");
    mkdirSync(path("outer"));
    symlinkSync("/etc", path("outer/inner"));
    const pod = await node.createPod("host-link", request("outer/inner"));
    await expect(node.prepare(pod)).rejects.toMatchObject({ code: "OS_PATH_REFUSED" });
    await node.remove(pod);
  });
});

describe("ConfigMaps and Secrets", () => {
  test("are readable by the node only while one of its pods names them", async () => {
    await node.api.post(`${CORE}/secrets`, { metadata: { name: "other" }, data: {} });
    const refused = { code: "KUBE_FORBIDDEN" };
    const { store } = node.client;
    const key = { namespace: "default", name: "other" };
    await expect(store.find(SECRETS, key)).rejects.toMatchObject(refused);
    await expect(store.list(SECRETS, { namespace: "default" })).rejects.toMatchObject(refused);
    await expect(store.list(CONFIG_MAPS)).rejects.toMatchObject(refused);
    await node.createPod("reader", { volumes: [{ name: "v", secret: { secretName: "other" } }] });
    expect((await store.find(SECRETS, key))?.metadata.name).toBe("other");
  });

  test("cost one watch for any number of references", async () => {
    await putConfigMap("exists", { key: "1" });
    const volumes = [1, 2, 3, 4].map((number) => {
      const missing = Array.from({ length: 60 }, (_none, index) => ({
        configMap: { name: `missing-${String(number)}-${String(index)}`, optional: true },
      }));
      const sources = [{ configMap: { name: "exists" } }, ...missing];
      return { name: `v${String(number)}`, projected: { sources } };
    });
    const pod = await node.createPod("many", { volumes });
    const from = node.requests.length;
    const [path = ""] = (await node.prepare(pod)).values();
    expect(read(path, "key")).toBe("1");
    const sent = node.requests.slice(from).filter((request) => request.endsWith(" configmaps"));
    const count = (verb: string) => sent.filter((request) => request.startsWith(verb)).length;
    expect([count("get"), count("watch") <= 1, count("list") <= 1]).toEqual([1, true, true]);
    await node.remove(pod);
  });

  test("update all files at once, and so do labels", async () => {
    await putConfigMap("config", { a: "1", b: "1" });
    const labels = { path: "labels", fieldRef: { fieldPath: "metadata.labels" } };
    const pod = await node.createPod("shown", {
      volumes: [
        { name: "config", configMap: { name: "config" } },
        { name: "about", downwardAPI: { items: [labels] } },
      ],
    });
    const paths = await node.prepare(pod);
    const [config = "", about = ""] = paths.values();
    expect(read(config, "a")).toBe("1");
    const { uid = "" } = pod.metadata;
    await eventually(() => node.pods.listBy("uid", uid).length === 1, TIMEOUT);
    await putConfigMap("config", { a: "2", c: "2" });
    await node.api.patch(`${CORE}/pods/shown`, { metadata: { labels: { app: "y" } } });
    await eventually(
      () => read(config, "a") === "2" && read(about, "labels") === 'app="y"',
      TIMEOUT,
    );
    expect([read(config, "b"), read(config, "c")]).toEqual([undefined, "2"]);
    await node.remove(pod);
  });

  test("that do not exist delay the pod, by name, until they exist", async () => {
    const pod = await node.createPod("waits", {
      volumes: [{ name: "v", secret: { secretName: "late", defaultMode: 0o400 } }],
      securityContext: { fsGroup: 1234 },
    });
    await expect(node.prepare(pod)).rejects.toMatchObject({
      code: "RUNTIME_VOLUME_FAILED",
      details: { volume: "v", reason: 'secret "late" not found' },
    });
    const reported: string[] = [];
    const stop = node.deps.objects.onChange((uid) => reported.push(uid));
    const data = { key: Buffer.from("hidden").toString("base64") };
    await node.api.post(`${CORE}/secrets`, { metadata: { name: "late" }, data });
    await eventually(() => reported.includes(pod.metadata.uid ?? ""), TIMEOUT);
    stop();
    const [path = ""] = (await node.prepare(pod)).values();
    expect(read(path, "key")).toBe("hidden");
    const { mode, gid } = statSync(join(path, "key"));
    expect([mode & 0o777, gid]).toEqual([0o440, 1234]);
    await node.remove(pod);
  });
});

describe("an emptyDir", () => {
  test.each([
    { name: "on the disk", emptyDir: { sizeLimit: "16Mi" } },
    { name: "in memory", emptyDir: { medium: "Memory", sizeLimit: "16Mi" } },
  ])("$name is full at its limit, while the node's disk is not", async ({ emptyDir }) => {
    const pod = await node.createPod(`full-${emptyDir.medium ?? "disk"}`.toLowerCase(), {
      volumes: [{ name: "v", emptyDir }],
      securityContext: { fsGroup: 1234 },
    });
    const [path = ""] = (await node.prepare(pod)).values();
    const { uid, gid, mode } = statSync(path);
    expect([uid, gid, mode & 0o7777]).toEqual([0, 1234, 0o2777]);
    writeFileSync(join(path, "fits"), Buffer.alloc(15 * MEBIBYTE));
    expect(() => {
      writeFileSync(join(path, "flood"), Buffer.alloc(4 * MEBIBYTE));
    }).toThrow(/ENOSPC/);
    await node.prepare(pod); // repeated: its content stays
    expect(readdirSync(path)).toContain("fits");
    await node.remove(pod);
    expect(await node.deps.disk.listMounts(node.directory)).toEqual([]);
  });

  test("without a limit holds more than two gibibytes", async () => {
    const pod = await node.createPod("unlimited", { volumes: [{ name: "v", emptyDir: {} }] });
    const [path = ""] = (await node.prepare(pod)).values();
    const { blocks, bsize } = statfsSync(path);
    expect(blocks * bsize).toBeGreaterThan(2 ** 31);
    await node.remove(pod);
  });
});

test("a pod's directory is deleted with foreign mounts, links and trees too deep for a path", async () => {
  const pod = await node.createPod("messy", {
    volumes: [
      { name: "disk", emptyDir: {} },
      { name: "memory", emptyDir: { medium: "Memory" } },
    ],
  });
  const [disk = "", memory = ""] = (await node.prepare(pod)).values();
  const plain = join(node.podDirectory(pod), "plain");
  execFileSync("mkdir", [plain]);
  const script = "chdir $ARGV[0]; for (1..3000) { mkdir 'd' or die; chdir 'd' or die }";
  for (const top of [disk, memory, plain]) {
    execFileSync("perl", ["-e", script, top]);
    symlinkSync("/etc", join(top, "link"));
  }
  execFileSync("mount", ["--bind", "/etc", join(disk, "d")]);
  execFileSync("mount", ["-t", "tmpfs", "none", join(plain, "d")]);
  await node.remove(pod);
  await node.remove(pod);
  expect(readdirSync(join(node.directory, "pods"))).not.toContain(pod.metadata.uid);
  expect(readdirSync("/etc")).toContain("passwd");
  // Other starting containers briefly hold every host mount and its device.
  const hasDevices = (): boolean =>
    execFileSync("losetup", ["--all"]).toString().includes(node.directory);
  await eventually(() => !hasDevices(), { withinMs: 10_000 });
});
