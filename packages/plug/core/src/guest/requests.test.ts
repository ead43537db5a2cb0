// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { guestPath, parseGuestRequest } from "./requests.ts";

test("a path says what was asked", () => {
  const key = { namespace: "ns", name: "vm-1" };
  const path = guestPath(key, "pause");
  expect(path).toBe("/v1/namespaces/ns/virtualmachineinstances/vm-1/pause");
  expect(parseGuestRequest(path)).toEqual({ key, request: "pause" });
});

test.each([
  "/",
  "/v1/namespaces/ns/virtualmachineinstances/vm/sing",
  "/v1/namespaces/ns/virtualmachineinstances/vm/toString",
  "/v1/namespaces/ns/virtualmachineinstances/vm/pause/more",
  "/v2/namespaces/ns/virtualmachineinstances/vm/pause",
  "/v1/namespaces/ns/pods/vm/pause",
])("%s asks nothing", (path) => {
  expect(parseGuestRequest(path)).toBeUndefined();
});
