// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { startControllerTest } from "../testing/test-controllers.ts";
import { keepAuthenticationConfig } from "./authentication-config.ts";

const NAME = "extension-apiserver-authentication";
const TRUST = { clientCaPem: "CLIENTS", frontProxyCaPem: "PROXIES", frontProxyName: "proxy" };
const DATA = {
  "client-ca-file": "CLIENTS",
  "requestheader-allowed-names": '["proxy"]',
  "requestheader-client-ca-file": "PROXIES",
  "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
  "requestheader-group-headers": '["X-Remote-Group"]',
  "requestheader-uid-headers": '["X-Remote-Uid"]',
  "requestheader-username-headers": '["X-Remote-User"]',
};

test("the settings of aggregated servers are written once, and again when they change", async () => {
  await using given = await startControllerTest();
  const { server } = given;
  const read = () => server.stored("configmaps", NAME, "kube-system");
  await keepAuthenticationConfig(server.deps, TRUST);
  expect(read()).toMatchObject({ kind: "ConfigMap", metadata: { name: NAME }, data: DATA });
  const first = read()?.metadata;
  await keepAuthenticationConfig(server.deps, TRUST);
  expect(read()?.metadata).toEqual(first);
  await keepAuthenticationConfig(server.deps, { ...TRUST, frontProxyName: "other" });
  expect(read()).toMatchObject({
    metadata: { uid: first?.uid },
    data: { ...DATA, "requestheader-allowed-names": '["other"]' },
  });
});
