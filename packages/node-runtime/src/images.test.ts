// SPDX-License-Identifier: Apache-2.0
import { isAppError } from "@patchbay/core";
import { createFakeFiles } from "@patchbay/ports/testing";
import { expect, test } from "vitest";
import { findImage, keepLauncherImage } from "./images.ts";

const OPTIONS = { launcher: "/opt/virt-launcher", hidden: ["/data", "/", "/data"] };

test("an image is its directory", async () => {
  const files = createFakeFiles();
  await files.writeAtomic("/i/guest/vmlinuz", "x");
  expect((await findImage(files, "/i", "guest"))?.root).toBe("/i/guest");
  expect(await findImage(files, "/i", "other")).toBeUndefined();
});

test.each(["..", "../etc", ".", "", "a/b"])("the name %j is no image", async (name) => {
  const files = createFakeFiles();
  await files.writeAtomic("/i/x", "x");
  expect(await findImage(files, "/i", name)).toBeUndefined();
});

test("the launcher's image is the host's root, without the runtime's own directories", async () => {
  const files = createFakeFiles();
  await keepLauncherImage(files, "/i", OPTIONS);
  const image = await findImage(files, "/i", "virt-launcher");
  expect(image).toMatchObject({ root: "/", hasOwnAccounts: true });
  expect(image?.hidden).toContain("/data");
  expect(image?.hidden).not.toContain("/");
  expect(image?.binds).toEqual([["/opt/virt-launcher", image?.entrypoint[0]]]);
});

test("an image that somebody put in the launcher's place is kept", async () => {
  const files = createFakeFiles();
  await files.writeAtomic("/i/virt-launcher/bin/sh", "x");
  await keepLauncherImage(files, "/i", OPTIONS);
  expect((await findImage(files, "/i", "virt-launcher"))?.root).toBe("/i/virt-launcher");
});

test("a broken description is told", async () => {
  const files = createFakeFiles();
  await files.writeAtomic("/i/x/image.json", "{");
  const refused = await findImage(files, "/i", "x").catch((error: unknown) => error);
  expect(isAppError(refused, "RUNTIME_IMAGE_INVALID")).toBe(true);
});
