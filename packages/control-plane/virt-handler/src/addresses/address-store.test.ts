// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createAddressStore } from "./address-store.ts";

function row(podInterfaceName: string, index = 3) {
  return { podInterfaceName, index, addresses: ["10.9.0.5/24"], routes: [] };
}

test("a new process reads the stored addresses until their NIC no longer exists", async () => {
  const files = createFakeFiles();
  const store = createAddressStore(files, "/s");
  await store.write("uid-1", row("eth0"));
  await store.write("uid-1", row("pod1"));
  const next = createAddressStore(files, "/s");
  expect(await next.list("uid-1")).toEqual([row("eth0"), row("pod1")]);
  await next.retain("uid-1", ({ podInterfaceName }) => podInterfaceName === "pod1");
  expect(await createAddressStore(files, "/s").list("uid-1")).toEqual([row("pod1")]);
});

test("a recreated NIC replaces the previous one", async () => {
  const store = createAddressStore(createFakeFiles(), "/s");
  await store.write("uid-1", row("eth0", 3));
  await store.write("uid-1", row("eth0", 9));
  expect(await store.list("uid-1")).toEqual([row("eth0", 9)]);
});

test("forgets pods that are not in use", async () => {
  const files = createFakeFiles();
  const store = createAddressStore(files, "/s");
  for (const uid of ["uid-1", "uid-2"]) await store.write(uid, row("eth0"));
  await store.retainPods(new Set(["uid-2"]));
  expect(files.paths).toEqual(["/s/uid-2/eth0.json"]);
  await store.forgetPod("uid-2");
  expect(files.paths).toEqual([]);
  expect(await store.list("uid-2")).toEqual([]);
});

test.each(["../x", "a/b", ""])("rejects %j as a file name", async (name) => {
  const store = createAddressStore(createFakeFiles(), "/s");
  await expect(store.write("uid-1", row(name))).rejects.toMatchObject({ code: "OS_PATH_REFUSED" });
  await expect(store.list(name)).rejects.toMatchObject({ code: "OS_PATH_REFUSED" });
});

test.each(["", "{}", '{"podInterfaceName":"a"}'])("rejects a file with %j", async (text) => {
  const files = createFakeFiles();
  await files.writeAtomic("/s/uid-1/eth0.json", text);
  const store = createAddressStore(files, "/s");
  await expect(store.list("uid-1")).rejects.toMatchObject({ code: "PODNET_ADDRESSES_UNREADABLE" });
  await files.writeAtomic("/s/uid-1/eth0.json", JSON.stringify(row("eth0")));
  expect(await store.list("uid-1")).toEqual([row("eth0")]);
});
