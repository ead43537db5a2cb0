// SPDX-License-Identifier: Apache-2.0
import { createFakeContainerRuntime } from "@patchbay/cri/testing";
import { createFakeClock, createFakeFiles } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { createImageAccess, createGrants, createRegistryPolicy } from "../images/access.ts";
import { NO_PULL_GUARD } from "../images/pull-guard.ts";
import { createPulls, type ImageUse, type Pulls } from "./pulls.ts";

const IMAGE = {
  id: "id-a",
  tags: ["reg.example/a:1"],
  digests: ["reg.example/a@sha256:0"],
  bytes: 1,
  username: "",
};
type Policy = ImageUse["policy"];

function useOf(uid: string, policy: Policy = "IfNotPresent", reference = IMAGE.tags[0]): ImageUse {
  return { uid, namespace: "ns1", reference: reference ?? "", policy, startId: "c 0" };
}

function setUp() {
  const runtime = createFakeContainerRuntime();
  runtime.putRemoteImage(IMAGE, "right");
  const woken: string[] = [];
  const wake = (uid: string): void => void woken.push(uid);
  const log = createFakeLogger();
  const files = createFakeFiles();
  const marked = new Set<string>();
  /** As a process that has just started. */
  const start = (): Pulls => {
    const grants = createGrants({ files, log, directory: "/images" });
    const isMarkedAsAdded = (name: string) => Promise.resolve(marked.has(name));
    const access = createImageAccess({ grants, isMarkedAsAdded });
    return createPulls({
      runtime,
      clock: createFakeClock(),
      log,
      wake,
      access,
      guard: NO_PULL_GUARD,
      registries: createRegistryPolicy({
        readKubeVirt: () => Promise.resolve(undefined),
        resolve: (host) =>
          Promise.resolve(host === "reg.evil" ? ["169.254.169.254"] : ["192.0.2.1"]),
      }),
    });
  };
  return { runtime, files, marked, start, pulls: start(), woken };
}

function asMe(password: string | undefined) {
  const candidates = password === undefined ? [] : [{ username: "me", password }];
  return () => Promise.resolve(candidates);
}

async function find(pulls: Pulls, use: ImageUse, password?: string): Promise<string> {
  return (await pulls.find(use, asMe(password))).kind;
}

/** Fetches it with that password, to the end. */
async function pull(pulls: Pulls, use: ImageUse, password?: string): Promise<void> {
  pulls.begin(use, { note: () => undefined, credentials: asMe(password) });
  while ((await find(pulls, { ...use, uid: "onlooker" })) === "pulling") await Promise.resolve();
}

test("a rejected pull delays no other pod", async () => {
  const { pulls } = setUp();
  await pull(pulls, useOf("uid-1"), "wrong");
  expect(await find(pulls, useOf("uid-1"))).toBe("failed");
  expect(await find(pulls, useOf("uid-2"))).toBe("absent");
  await pull(pulls, useOf("uid-2"), "right");
  expect(await find(pulls, useOf("uid-2"))).toBe("present");
});

test("forgets the failure of a deleted pod", async () => {
  const { pulls } = setUp();
  await pull(pulls, useOf("uid-1"), "wrong");
  pulls.forget("uid-1");
  expect(await find(pulls, useOf("uid-1"))).toBe("absent");
});

test("an image pulled with a secret is available to the same credentials, also after a restart", async () => {
  const { pulls, start } = setUp();
  await pull(pulls, useOf("uid-1"), "right");
  for (const each of [pulls, start()]) {
    expect(await find(each, useOf("uid-2"))).toBe("absent");
    expect(await find(each, useOf("uid-2"), "wrong")).toBe("absent");
    expect(await find(each, useOf("uid-2"), "right")).toBe("present");
    expect(await find(each, useOf("uid-2", "Never"))).toBe("failed");
    expect(await find(each, useOf("uid-2", "Never"), "right")).toBe("present");
  }
});

test.each([
  { name: "its id", reference: "id-a" },
  { name: "a part of its id", reference: "id" },
])("an image pulled with a secret is not available by $name", async ({ reference }) => {
  const { pulls, runtime } = setUp();
  await pull(pulls, useOf("uid-1"), "right");
  runtime.findImage = () => Promise.resolve(IMAGE);
  expect(await find(pulls, useOf("uid-2", "IfNotPresent", reference))).toBe("absent");
});

test("an anonymous pull makes the image available to all pods under this repository", async () => {
  const { pulls, runtime } = setUp();
  const copy = { tags: ["evil.example/a:1"], digests: ["evil.example/a@sha256:0"] };
  runtime.putRemoteImage({ ...IMAGE, ...copy });
  await pull(pulls, useOf("uid-1", "IfNotPresent", copy.tags[0]));
  runtime.putImage({
    ...IMAGE,
    tags: [...IMAGE.tags, ...copy.tags],
    digests: [...IMAGE.digests, ...copy.digests],
  });
  expect(await find(pulls, useOf("uid-2", "IfNotPresent", copy.tags[0]))).toBe("present");
  expect(await find(pulls, useOf("uid-2"))).toBe("absent");
});

test("a container whose image changes before its start has not pulled the new image", async () => {
  const { pulls, runtime } = setUp();
  runtime.putRemoteImage({ ...IMAGE, id: "id-b", tags: ["reg.example/b:1"], digests: [] });
  await pull(pulls, useOf("uid-1"), "right");
  await pull(pulls, useOf("uid-2", "Always", "reg.example/b:1"));
  expect(await find(pulls, useOf("uid-2"))).toBe("absent");
});

test("an image without a registry is available to all pods, a registry's copy is not", async () => {
  const { marked, pulls, runtime } = setUp();
  runtime.putImage({ ...IMAGE, digests: [] });
  expect(await find(pulls, useOf("uid-1", "Always"))).toBe("present");
  // The same image was fetched from that repository by another name.
  runtime.putImage(IMAGE);
  expect(await find(pulls, useOf("uid-1", "Always"))).toBe("absent");
  marked.add(IMAGE.tags[0] ?? "");
  expect(await find(pulls, useOf("uid-1", "Always"))).toBe("present");
});

test("does not contact a registry for names below localhost/", async () => {
  const { pulls } = setUp();
  const facts = await pulls.find(useOf("uid-1", "Always", "localhost/x:1"), asMe(undefined));
  expect(facts).toMatchObject({
    kind: "failed",
    summary: {
      reason: "ErrImageNeverPull",
      message:
        "image localhost/x:1 is not on this machine, and no registry has names below localhost/; " +
        "add it with: patchbay image add localhost/x:1 SOURCE",
    },
  });
});

test("grants are deleted with the image, and an invalid file grants nothing", async () => {
  const { files, pulls, start } = setUp();
  await pull(pulls, useOf("uid-1"), "right");
  await files.writeAtomic("/images/id-a", '{"reg.example/a":[1]}');
  expect(await find(start(), useOf("uid-2"), "right")).toBe("absent");
  await createGrants({ files, log: createFakeLogger(), directory: "/images" }).retainOnly(
    new Set(),
  );
  expect(await files.list("/images")).toEqual([]);
});

function useIn(namespace: string, reference: string): ImageUse {
  return { ...useOf("uid-1", "IfNotPresent", reference), namespace };
}

test.each([
  "127.0.0.1:5000/a:1",
  "127.9.9.9:5000/a",
  "127.1:5000/a",
  "0x7f000001:80/a",
  "0.0.0.0:5000/a",
  "localhost:5000/a",
  "LOCALHOST/a",
  "x.localhost:5000/a",
  "localhost.:5000/a",
  "169.254.169.254/latest/meta-data",
  "[::1]:5000/a",
  "[fe80::1]:5000/a",
  "[::ffff:127.0.0.1]:5000/a",
])("rejects registry %s for tenants only", async (reference) => {
  const { pulls } = setUp();
  const found = await pulls.find(useIn("tenant", reference), asMe(undefined));
  expect(found).toMatchObject({
    kind: "failed",
    summary: { reason: "ErrImagePull", message: expect.stringContaining("registr") as string },
  });
  expect(await find(pulls, useIn("default", reference))).toBe("absent");
});

test.each(["a", "library/a", "reg.example/a:1", "192.0.2.1:5000/a", "localhost/a:1"])(
  "does not reject registry of %s",
  async (reference) => {
    const { pulls } = setUp();
    const found = await pulls.find(useIn("tenant", reference), asMe(undefined));
    expect(JSON.stringify(found)).not.toContain("registries on loopback");
  },
);

test("does not pull from a name with a link-local address for tenants", async () => {
  const { pulls } = setUp();
  const use = useIn("tenant", "reg.evil/a:1");
  await pull(pulls, use);
  expect(await pulls.find(use, asMe(undefined))).toMatchObject({
    kind: "failed",
    summary: { message: expect.stringContaining("reg.evil (169.254.169.254)") as string },
  });
});

/** Pulls that end only when the test ends them. `started` lists their images in the order of their start. */
function setUpHangingPulls() {
  const { pulls, runtime, woken } = setUp();
  const started: string[] = [];
  const ends = new Map<string, () => void>();
  runtime.pullImage = (reference) => {
    started.push(reference);
    const { promise, reject } = Promise.withResolvers<string>();
    ends.set(reference, () => {
      reject(new Error("no such host"));
    });
    return promise;
  };
  const begin = (namespace: string, reference: string, uid: string): void => {
    const use = { ...useIn(namespace, reference), uid };
    pulls.begin(use, { note: () => undefined, credentials: asMe(undefined) });
  };
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  const end = async (reference: string): Promise<void> => {
    ends.get(reference)?.();
    await settle();
  };
  return { pulls, woken, started, begin, settle, end };
}

test("hanging pulls of a namespace do not delay pulls of others", async () => {
  const { begin, end, settle, started } = setUpHangingPulls();
  for (const name of ["a", "b", "c", "d"]) begin("t1", `${name}:1`, `uid-${name}`);
  begin("t2", "e:1", "uid-e");
  for (const name of ["f", "g", "h"]) begin("t3", `${name}:1`, `uid-${name}`);
  begin("patchbay", "i:1", "uid-i");
  await settle();
  expect(started).toEqual(["a:1", "b:1", "c:1", "e:1", "f:1", "g:1", "h:1", "i:1"]);
  await end("a:1");
  expect(started.slice(8)).toEqual(["d:1"]);
});

test("an image that waits in one namespace's queue is pulled at once for another namespace", async () => {
  const { begin, end, pulls, settle, started, woken } = setUpHangingPulls();
  for (const name of ["a", "b", "c", "shared"]) begin("t1", `${name}:1`, `uid-${name}`);
  await settle();
  const use = { ...useIn("t2", "shared:1"), uid: "uid-t2" };
  expect(await find(pulls, { ...use, namespace: "t1" })).toBe("pulling");
  expect(await find(pulls, use)).toBe("absent");
  begin("t2", "shared:1", "uid-t2");
  expect(await find(pulls, use)).toBe("pulling");
  await settle();
  expect(started).toEqual(["a:1", "b:1", "c:1", "shared:1"]);
  await end("shared:1");
  expect(woken).toEqual(["uid-shared", "uid-t2"]);
  await end("a:1");
  expect(started).toHaveLength(4);
});

test("does not pull for pods that were deleted in the queue", async () => {
  const { begin, end, pulls, settle, started } = setUpHangingPulls();
  for (const name of ["a", "b", "c", "d", "e"]) begin("t1", `${name}:1`, `uid-${name}`);
  await settle();
  pulls.forget("uid-d");
  await end("a:1");
  expect(started).toEqual(["a:1", "b:1", "c:1", "e:1"]);
});
