// SPDX-License-Identifier: Apache-2.0
// A tenant that uses an image pulled with another tenant's secret, or replaces an administrator's image.
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Container, Pod } from "@patchbay/api/kubernetes";
import { archiveDirectory } from "@patchbay/containerd";
import { createFiles, createProcessRunner } from "@patchbay/os";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startRegistry, type Registry } from "../../contract/containerd/registry.ts";
import { RuntimeMachine, shellContainer, shellPod } from "../../contract/node-runtime/machine.ts";
import { addImage, IMAGES_MS } from "../containers/pod-machine.ts";

const LOGIN = { username: "me", password: "pw" };
const TIMEOUT = { withinMs: 30_000 };

let machine: RuntimeMachine;
let work: string;
/** Registries with and without a login. */
let closed: Registry;
let open: Registry;

/** Image files that name its author. */
function filesOf(maker: string): string {
  const directory = join(work, maker);
  mkdirSync(directory);
  writeFileSync(join(directory, "maker"), maker);
  return directory;
}

beforeAll(async () => {
  machine = await RuntimeMachine.start();
  work = mkdtempSync(join(tmpdir(), "patchbay-registry-"));
  const deps = { files: createFiles(), runner: createProcessRunner() };
  const image = { source: filesOf("registry"), workDirectory: join(work, "image") };
  const archive = await archiveDirectory(deps, { ...image, architecture: "amd64" });
  const layout = join(work, "layout");
  mkdirSync(layout);
  execFileSync("tar", ["-xf", archive, "-C", layout]);
  closed = await startRegistry(layout, LOGIN);
  open = await startRegistry(layout);
  for (const name of ["other", "tenant"]) {
    await machine.api.post("/api/v1/namespaces", { metadata: { name } });
  }
  await machine.installKinds();
  const tenantPolicy = { trustedNamespaces: ["default", "other"] };
  await eventually(async () => {
    const path = "/apis/kubevirt.io/v1/namespaces/default/kubevirts";
    const { code, text } = await machine.api.post(path, {
      apiVersion: "kubevirt.io/v1",
      kind: "KubeVirt",
      metadata: { name: "kubevirt" },
      spec: { configuration: { network: { tenantPolicy } } },
    });
    if (code !== 201) throw new Error(text);
    return true;
  }, TIMEOUT);
  const auths = { [closed.host]: LOGIN };
  await machine.api.post("/api/v1/namespaces/default/secrets", {
    metadata: { name: "pull" },
    type: "kubernetes.io/dockerconfigjson",
    stringData: { ".dockerconfigjson": JSON.stringify({ auths }) },
  });
}, IMAGES_MS);
afterAll(async () => {
  for (const name of ["other", "tenant"]) {
    await machine.api.delete(`/api/v1/namespaces/${name}/pods`, { gracePeriodSeconds: 0 });
  }
  await machine.clear();
  await closed.close();
  await open.close();
  await machine.close();
  rmSync(work, { recursive: true });
});

/** A pod of an image without any program. */
interface Asking {
  readonly namespace: string;
  readonly name: string;
  readonly container: Partial<Container>;
  readonly spec?: Partial<Pod["spec"]>;
}

/** Its result: why it waits, or that the image was present. */
async function ask({ namespace, name, container, spec = {} }: Asking): Promise<string> {
  const containers = [{ ...shellContainer("true"), ...container }];
  const pod = shellPod(name, "", { containers, ...spec }) as { readonly metadata: object };
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const made = { ...pod, metadata: { ...pod.metadata, namespace } };
  // The namespace gets its account shortly after its creation.
  await eventually(async () => {
    const { code, text } = await machine.api.post(path, made);
    if (code !== 201) throw new Error(text);
    return true;
  }, TIMEOUT);
  return eventually(async () => {
    const { body } = await machine.api.get(`${path}/${name}`);
    const { status } = body as unknown as Pod;
    const { waiting, terminated } = status?.containerStatuses?.[0]?.state ?? {};
    if (terminated !== undefined) return "there";
    if (waiting === undefined || waiting.reason === "ContainerCreating") return undefined;
    return /^(ErrImage|ImagePull)/.test(waiting.reason) ? waiting.reason : "there";
  }, TIMEOUT);
}

function theft(name: string, container: Partial<Container>): Promise<string> {
  return ask({ namespace: "other", name, container });
}

test("attack 90: an image pulled with one namespace's secret is authorized again for another namespace", async () => {
  const image = `${closed.host}/team/secret:1`;
  const pull = { image, imagePullPolicy: "IfNotPresent" } as const;
  const spec = { imagePullSecrets: [{ name: "pull" }] };
  const owner = { namespace: "default", name: "owner", container: pull, spec };
  expect(await ask(owner)).toBe("there");
  const found = await machine.runtime.findImage(image);
  expect(found?.tags).toContain(image);
  expect(await theft("by-name", pull)).toMatch(/ImagePull/);
  expect(await theft("by-id", { ...pull, image: found?.id ?? "" })).toMatch(/ImagePull/);
  expect(await theft("of-what-is-there", { ...pull, imagePullPolicy: "Never" })).toBe(
    "ErrImageNeverPull",
  );
  await machine.stopRuntime("SIGKILL");
  await machine.startRuntime();
  expect(await theft("later", pull)).toMatch(/ImagePull/);
});

test("attack 91: does not pull over an added image, and never pulls an image of localhost", async () => {
  const image = `${open.host}/team/added:1`;
  await addImage(machine, image, filesOf("administrator"));
  const before = await machine.runtime.findImage(image);
  expect(await theft("replaces", { image, imagePullPolicy: "Always" })).toBe("there");
  expect((await machine.runtime.findImage(image))?.id).toBe(before?.id);
  const local = { image: "localhost/mine:1", imagePullPolicy: "Always" } as const;
  expect(await theft("local", local)).toBe("ErrImageNeverPull");
});

/** A port of the host's loopback address, and the number of connections to it. */
async function listen(): Promise<{ readonly server: Server; readonly connections: () => number }> {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, connections: () => connections };
}

test("attack 160: never connects to the host's loopback address for a tenant's image", async () => {
  const { server, connections } = await listen();
  const { port } = server.address() as AddressInfo;
  for (const [index, host] of ["127.0.0.1", "localhost", "127.1"].entries()) {
    const image = `${host}:${String(port)}/x:1`;
    const name = `loopback-${String(index)}`;
    const asking = { namespace: "tenant", name, container: { image } };
    expect(await ask(asking)).toBe("ErrImagePull");
    const { body } = await machine.api.get(`/api/v1/namespaces/tenant/pods/${name}`);
    const { waiting } = (body as unknown as Pod).status?.containerStatuses?.[0]?.state ?? {};
    expect(waiting?.message).toContain("only namespaces default, other may use registries");
  }
  expect(connections()).toBe(0);
  server.close();
});
