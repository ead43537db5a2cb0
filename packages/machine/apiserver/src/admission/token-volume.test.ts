// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import { giveToken } from "./token-volume.ts";

const AT = "/var/run/secrets/kubernetes.io/serviceaccount";
const MOUNT = { name: "kube-api-access-abcde", readOnly: true, mountPath: AT };
const VOLUME = {
  name: "kube-api-access-abcde",
  projected: {
    defaultMode: 420,
    sources: [
      { serviceAccountToken: { expirationSeconds: 3607, path: "token" } },
      { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
      {
        downwardAPI: {
          items: [
            { path: "namespace", fieldRef: { apiVersion: "v1", fieldPath: "metadata.namespace" } },
          ],
        },
      },
    ],
  },
};

function given(spec: Fields, account: Fields = {}): Fields {
  giveToken(spec, account, () => "abcde");
  return spec;
}

test("all containers of a pod see a token, the authority and the namespace", () => {
  const spec = given({
    initContainers: [{ name: "first" }],
    containers: [{ name: "main", volumeMounts: [{ name: "x", mountPath: "/x" }] }],
    volumes: [{ name: "x", emptyDir: {} }],
  });
  expect(spec).toEqual({
    initContainers: [{ name: "first", volumeMounts: [MOUNT] }],
    containers: [{ name: "main", volumeMounts: [{ name: "x", mountPath: "/x" }, MOUNT] }],
    volumes: [{ name: "x", emptyDir: {} }, VOLUME],
  });
});

test.each([
  {
    name: "the pod wants none",
    spec: { automountServiceAccountToken: false },
    account: { automountServiceAccountToken: true },
  },
  {
    name: "its account has none to give",
    spec: {},
    account: { automountServiceAccountToken: false },
  },
])("nothing is added where $name", ({ spec, account }) => {
  const whole = { ...spec, containers: [{ name: "main" }] };
  expect(given(structuredClone(whole), account)).toEqual(whole);
});

test("the pod may want one although its account does not", () => {
  const spec = given(
    { automountServiceAccountToken: true, containers: [{ name: "main" }] },
    { automountServiceAccountToken: false },
  );
  expect(spec["volumes"]).toEqual([VOLUME]);
});

test("what is mounted there already stays, and a volume of that kind is taken as it is", () => {
  const own = { name: "mine", mountPath: AT };
  const full = { containers: [{ name: "main", volumeMounts: [own] }] };
  expect(given(structuredClone(full))).toEqual(full);
  const volumes = [{ name: "kube-api-access-zzzzz", emptyDir: {} }];
  const spec = given({ containers: [{ name: "main" }], volumes });
  expect(spec["volumes"]).toEqual(volumes);
  expect(spec["containers"]).toEqual([
    { name: "main", volumeMounts: [{ ...MOUNT, name: "kube-api-access-zzzzz" }] },
  ]);
});
