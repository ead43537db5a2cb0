// SPDX-License-Identifier: Apache-2.0
// Test hook that listens at a socket, like a sidecar.
import { Server, ServerCredentials, type sendUnaryData, type ServerUnaryCall } from "@grpc/grpc-js";
import type { HookInfo, HookVersion } from "@patchbay/core/interfaces";
import { loadCallbacks, loadInfo } from "../child.ts";

/** Behavior of a test hook. */
export interface ServedHook {
  readonly info: HookInfo;
  /** Returns the changed domain. @throws the failure of the hook */
  readonly onDefineDomain?: (domainXml: string, vmi: string) => string | Promise<string>;
  /** Returns the changed cloud-init data. */
  readonly preCloudInitIso?: (input: CloudInitTexts) => CloudInitTexts;
  readonly shutdown?: () => void;
}

/** Cloud-init data in its two forms, both JSON. */
export interface CloudInitTexts {
  readonly data: string;
  readonly noCloudSource: string;
}

interface CloudInitParams {
  readonly cloudInitData: Buffer;
  readonly cloudInitNoCloudSource: Buffer;
}

function preCloudInitIso({ preCloudInitIso: change = (input) => input }: ServedHook) {
  return (call: ServerUnaryCall<CloudInitParams, object>, answer: sendUnaryData<object>): void => {
    const { cloudInitData, cloudInitNoCloudSource } = call.request;
    const { data, noCloudSource } = change({
      data: cloudInitData.toString("utf8"),
      noCloudSource: cloudInitNoCloudSource.toString("utf8"),
    });
    answer(null, {
      cloudInitData: Buffer.from(data),
      cloudInitNoCloudSource: Buffer.from(noCloudSource),
    });
  };
}

interface DefineParams {
  readonly domainXML: Buffer;
  readonly vmi: Buffer;
}

const VERSIONS: readonly HookVersion[] = ["v1alpha2", "v1alpha3"];

function define({ onDefineDomain = (xml) => xml }: ServedHook) {
  return (call: ServerUnaryCall<DefineParams, object>, answer: sendUnaryData<object>): void => {
    const { domainXML, vmi } = call.request;
    const answered = new Promise<string>((resolve) => {
      resolve(onDefineDomain(domainXML.toString("utf8"), vmi.toString("utf8")));
    });
    answered.then(
      (xml) => {
        answer(null, { domainXML: Buffer.from(xml) });
      },
      (error: unknown) => {
        answer(error instanceof Error ? error : new Error(String(error)));
      },
    );
  };
}

/** Serves the hook at the path until `close`. */
export async function serveHook(path: string, hook: ServedHook): Promise<{ close(): void }> {
  const server = new Server();
  server.addService(loadInfo(), {
    Info: (_call: unknown, answer: sendUnaryData<object>) => {
      answer(null, hook.info);
    },
  });
  for (const version of VERSIONS) {
    server.addService(loadCallbacks(version), {
      OnDefineDomain: define(hook),
      PreCloudInitIso: preCloudInitIso(hook),
      Shutdown: (_call: unknown, answer: sendUnaryData<object>) => {
        hook.shutdown?.();
        answer(null, {});
      },
    });
  }
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  server.bindAsync(`unix:${path}`, ServerCredentials.createInsecure(), (error) => {
    if (error === null) resolve(undefined);
    else reject(error);
  });
  await promise;
  return {
    close: () => {
      server.forceShutdown();
    },
  };
}
