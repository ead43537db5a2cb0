// SPDX-License-Identifier: Apache-2.0

export const KUBEVIRT_GROUP = "kubevirt.io";
export const SUBRESOURCES_GROUP = "subresources.kubevirt.io";
export const INSTANCETYPE_GROUP = "instancetype.kubevirt.io";
export const MIGRATIONS_GROUP = "migrations.kubevirt.io";
/** API group of VirtualMachinePool. virt-api rejects objects of this kind. Source: KubeVirt `pool.kubevirt.io`. */
export const POOL_GROUP = "pool.kubevirt.io";
/** API group of VirtualMachineExport. virt-api rejects objects of this kind. Source: KubeVirt `export.kubevirt.io`. */
export const EXPORT_GROUP = "export.kubevirt.io";
/** Group of NetworkAttachmentDefinitions. Source: NPWG de-facto standard 1.3 section 3. */
export const NAD_GROUP = "k8s.cni.cncf.io";

/** Annotation of a pod, written by virt-controller. Its value is the requested secondary networks. Source: NPWG 1.3 section 4.1. */
export const NETWORKS_ANNOTATION = "k8s.v1.cni.cncf.io/networks";
/** Annotation of a MultiNetworkPolicy. Its value is the restricted networks, separated by commas. Source: NPWG multi-networkpolicy. */
export const POLICY_FOR_ANNOTATION = "k8s.v1.cni.cncf.io/policy-for";
/** Annotation of a pod, written by net-agent and, if installed, Multus. Its value is the attached networks. Source: NPWG 1.3 section 5. */
export const NETWORK_STATUS_ANNOTATION = "k8s.v1.cni.cncf.io/network-status";
/** Annotation of a pod, written by virt-controller: NIC data for the launcher's downward API. Source: KubeVirt NetworkInfoAnnot. */
export const NETWORK_INFO_ANNOTATION = "kubevirt.io/network-info";
/** Annotation of a pod. Its value is the NetworkAttachmentDefinition for eth0 of new sandboxes. Source: Multus defaultNetAnnot. */
export const DEFAULT_NETWORK_ANNOTATION = "v1.multus-cni.io/default-network";
/** Annotation of a NetworkAttachmentDefinition. Its value is the device plugin's resource that pods must request. Source: Multus. */
export const RESOURCE_NAME_ANNOTATION = "k8s.v1.cni.cncf.io/resourceName";
/** Annotation of a Service. Its value is the secondary network of the endpoints. Source: NPWG multus-service. */
export const SERVICE_NETWORK_ANNOTATION = "k8s.v1.cni.cncf.io/service-network";
/** Annotation of a Service. Its value is a selector for VMIs. Requires {@link SERVICE_NETWORK_ANNOTATION} and an empty `spec.selector`. */
export const SERVICE_SELECTOR_ANNOTATION = "patchbay.io/service-selector";
/** Annotation of a VMI that permits a migration although the pod network has bridge binding. Source: KubeVirt. */
export const ALLOW_POD_BRIDGE_MIGRATION_ANNOTATION =
  "kubevirt.io/allow-pod-bridge-network-live-migration";
/**
 * Annotation of a VMI with the name of the interface that offers the guest its default routes. It replaces Multus'
 * `default-route`, which would move the launcher's own default route.
 */
export const DEFAULT_ROUTE_ANNOTATION = "patchbay.io/default-route";
export const HOOK_SIDECARS_ANNOTATION = "hooks.kubevirt.io/hookSidecars";
/** Annotation of a pod, written by net-agent. Its value contains the errors of failed attachments. */
export const ATTACHMENT_ERRORS_ANNOTATION = "patchbay.io/attachment-errors";
/** Annotation of a pod. Its value contains the gateways that CNI returned for each NIC; writer: net-agent. */
export const CNI_GATEWAYS_ANNOTATION = "patchbay.io/cni-gateways";

/** Annotation of a net-agent pod. `"true"` makes the pod remove its CNI plugin from the node when it ends; writer: the uninstaller. */
export const UNINSTALL_PLUGIN_ANNOTATION = "patchbay.io/leave-runtime";

/** Annotation of an installed object. Its value is the specification that `patchbay install` wrote last, for a three-way merge. */
export const LAST_INSTALLED_ANNOTATION = "patchbay.io/last-installed";

/** Annotation of a VMI. Its value contains the devices' PCI addresses at the VM's last start; writer: virt-controller. */
export const PCIE_TOPOLOGY_ANNOTATION = "patchbay.io/pcie-topology";
export const RETAINED_ADDRESSES_ANNOTATION = "patchbay.io/kept-addresses";
/** Annotation of a VMI. Its value contains the MACs that networks assigned to the VM's last guest, as JSON; writer: virt-controller. */
export const RETAINED_MACS_ANNOTATION = "patchbay.io/kept-macs";
/** Annotation of a VMI. Its value is the version of the PCI layout. Source: KubeVirt PciTopologyVersionAnnotation. */
export const PCI_TOPOLOGY_VERSION_ANNOTATION = "kubevirt.io/pci-topology-version";
/** Annotation of a VMI: number of PCIe ports for NICs, including NICs plugged later. Source: KubeVirt PciInterfaceSlotCountAnnotation. */
export const PCI_SLOT_COUNT_ANNOTATION = "kubevirt.io/pci-interface-slot-count";
/** Annotation of a VMI. `"true"` places PCI devices on the root complex, where hot-plug is impossible. Source: KubeVirt. */
export const ROOT_COMPLEX_ANNOTATION = "kubevirt.io/placePCIDevicesOnRootComplex";

/** Label, and deprecated annotation, of a pod. `"true"` requests Istio's proxy. Source: Istio `sidecar.istio.io/inject`. */
export const MESH_INJECT = "sidecar.istio.io/inject";
/** Annotation of a pod. Its value is the link whose traffic Istio intercepts. Source: Istio `istio.io/reroute-virtual-interfaces`. */
export const MESH_INTERFACES = "istio.io/reroute-virtual-interfaces";
/** Former name of {@link MESH_INTERFACES}, which old releases of Istio read. */
export const MESH_INTERFACES_DEPRECATED = "traffic.sidecar.istio.io/kubevirtInterfaces";

export const KUBEVIRT_LABEL = "kubevirt.io";
/** Value of {@link KUBEVIRT_LABEL} on launcher pods. Source: KubeVirt. */
export const LAUNCHER_LABEL_VALUE = "virt-launcher";
/** Label of a launcher pod. Its value is the uid of the VMI. Source: KubeVirt. */
export const CREATED_BY_LABEL = "kubevirt.io/created-by";
export const VM_NAME_LABEL = "vm.kubevirt.io/name";
/** Annotation of a VMI. Its value is the name of the namespaced instancetype. Source: KubeVirt InstancetypeAnnotation. */
export const INSTANCETYPE_ANNOTATION = "kubevirt.io/instancetype-name";
/** Annotation of a VMI. Its value is the name of the cluster instancetype. Source: KubeVirt ClusterInstancetypeAnnotation. */
export const CLUSTER_INSTANCETYPE_ANNOTATION = "kubevirt.io/cluster-instancetype-name";
/** Annotation of a VMI. Its value is the name of the namespaced preference. Source: KubeVirt PreferenceAnnotation. */
export const PREFERENCE_ANNOTATION = "kubevirt.io/preference-name";
/** Annotation of a VMI. Its value is the name of the cluster preference. Source: KubeVirt ClusterPreferenceAnnotation. */
export const CLUSTER_PREFERENCE_ANNOTATION = "kubevirt.io/cluster-preference-name";
/**
 * Label of a claim, DataVolume or DataSource: the default instancetype of VMs that infer it from a volume of this object. Source: KubeVirt
 * DefaultInstancetypeLabel.
 */
export const DEFAULT_INSTANCETYPE_LABEL = "instancetype.kubevirt.io/default-instancetype";
/** Kind of the default instancetype. Default: VirtualMachineClusterInstancetype. Source: KubeVirt DefaultInstancetypeKindLabel. */
export const DEFAULT_INSTANCETYPE_KIND_LABEL = "instancetype.kubevirt.io/default-instancetype-kind";
export const DEFAULT_PREFERENCE_LABEL = "instancetype.kubevirt.io/default-preference";
export const DEFAULT_PREFERENCE_KIND_LABEL = "instancetype.kubevirt.io/default-preference-kind";
/** Prefix of the labels that describe the object in a ControllerRevision. Source: KubeVirt api/instancetype register.go. */
export const REVISION_LABEL_PREFIX = "instancetype.kubevirt.io/object-";
/** Annotation of a launcher pod. Its value is the name of the VMI. Source: KubeVirt. */
export const DOMAIN_ANNOTATION = "kubevirt.io/domain";
/** Label of a VMI. Its value is the name of the node. virt-handler filters its watch by this label. Source: KubeVirt. */
export const NODE_NAME_LABEL = "kubevirt.io/nodeName";
/** Label of a migrating VMI. Its value is the name of the target node. Source: KubeVirt MigrationTargetNodeNameLabel. */
export const MIGRATION_TARGET_NODE_LABEL = "kubevirt.io/migrationTargetNodeName";
/** Label of a target launcher pod. Its value is the uid of the migration. Source: KubeVirt MigrationJobLabel. */
export const MIGRATION_JOB_LABEL = "kubevirt.io/migrationJobUID";
/** Annotation of an evacuation migration. Its value is the name of the drained node. Source: KubeVirt EvacuationMigrationAnnotation. */
export const EVACUATION_ANNOTATION = "kubevirt.io/evacuationMigration";
/** Annotation of a target launcher pod. Its value is the name of the migration. Source: KubeVirt MigrationJobNameAnnotation. */
export const MIGRATION_JOB_NAME_ANNOTATION = "kubevirt.io/migrationJobName";
/** Label of a migration. Its value is the name of the VMI. Source: KubeVirt MigrationSelectorLabel. */
export const MIGRATION_VMI_LABEL = "kubevirt.io/vmi-name";

export const PATCHBAY_IMAGE = "localhost/patchbay/patchbay:dev";
/** Label of a namespace that `patchbay create namespace` made for a tenant. */
export const TENANT_LABEL = "patchbay.io/tenant";
/** Label of the objects that `patchbay install` manages. Source: Kubernetes recommended labels. */
export const PART_OF_LABEL = "app.kubernetes.io/part-of";
export const PRODUCT = "patchbay";
export const SERVICES_NAMESPACE = "patchbay";
/** Secret with the CA and the serving certificate of virt-api; writer: virt-api. */
export const CERTIFICATES_SECRET = "virt-api-certificates";
/** Secret with the serving certificate that all virt-handlers share; writer: virt-api. */
export const HANDLER_CERTIFICATES_SECRET = "virt-handler-certificates";
export const VIRT_API_SERVICE = "virt-api";
export const WEBHOOKS_NAME = "patchbay";
/** Prefix of the user names of Patchbay's service accounts. Source: Kubernetes service accounts. */
export const SERVICE_ACCOUNT_PREFIX = `system:serviceaccount:${SERVICES_NAMESPACE}:`;
/** Prefix of the user group of a node's services, followed by the node's name. Members may write only objects of that node. */
export const NODE_GROUP_PREFIX = "patchbay.io:node:";
/** Organization in the certificates that nodes use for migrations. The common name is the node's name. */
export const RELAY_GROUP = "patchbay.io:migration";

/** Annotation of a VM's template. Its value contains the requested addresses by interface. Source: KubeVirt ipam-extensions. */
export const REQUESTED_ADDRESSES_ANNOTATION = "network.kubevirt.io/addresses";
/** Finalizer that retains an IPAMClaim until no pod uses its addresses. Source: KubeVirt ipam-extensions. */
export const IPAM_CLAIM_FINALIZER = "kubevirt.io/persistent-ipam";
/** Annotation of a pod. Its value is the name of the IPAMClaim of its pod network. Source: OVN-Kubernetes OvnUDNIPAMClaimName. */
export const PRIMARY_CLAIM_ANNOTATION = "k8s.ovn.org/primary-udn-ipamclaim";
/** Label of an IPAMClaim. Its value is the name of the VM. Source: KubeVirt VirtualMachineLabel. */
export const IPAM_CLAIM_VM_LABEL = "kubevirt.io/vm";
/** Finalizer that retains a VMI until its launcher pod is deleted; owner: virt-controller. Source: KubeVirt. */
export const VMI_FINALIZER = "foregroundDeleteVirtualMachine";
/** Finalizer that retains a migration until virt-controller has cleaned up. Source: KubeVirt VirtualMachineInstanceMigrationFinalizer. */
export const MIGRATION_FINALIZER = "kubevirt.io/migrationJobFinalize";

export const KVM_RESOURCE = "devices.kubevirt.io/kvm";
export const TUN_RESOURCE = "devices.kubevirt.io/tun";
export const VHOST_NET_RESOURCE = "devices.kubevirt.io/vhost-net";

/** Extended resource with which userspace dataplanes request access to {@link VHOST_USER_DIR}. */
export const VHOST_USER_DATAPLANE_RESOURCE = "vhost-user.patchbay.io/dataplane";
/** Extended resource with which a launcher requests its socket directory, {@link VHOST_USER_DIR}/ID. Each launcher has its own ID. */
export const VHOST_USER_RESOURCE = "vhost-user.patchbay.io/sockets";
/** Directory of vhost-user sockets; the path is the same on the node, in launchers and in dataplane pods. */
export const VHOST_USER_DIR = "/run/patchbay/vhost-user";
/** Host directory with one subdirectory for each launcher. The launcher mounts its subdirectory at {@link VHOST_USER_DIR}/ID. */
export const VHOST_USER_LAUNCHER_DIR = "/run/patchbay/vhost-user-shown";

/** Directory of emptyDir volumes below the pod's directory on the node. Source: kubelet's volume layout. */
export const EMPTY_DIR_VOLUMES = "volumes/kubernetes.io~empty-dir";
/** emptyDir volume of a launcher pod for the sockets of libvirt and the console. */
export const LAUNCHER_VOLUME = "launcher";
/** Name prefix that a hook's container and emptyDir volume share. A number follows, counted from 0. Source: KubeVirt hook-sidecar-N. */
export const HOOK_SIDECAR_PREFIX = "hook-sidecar-";
/** Mount path of a hook's emptyDir volume, where the hook listens. Source: KubeVirt pkg/hooks HookSocketsSharedDirectory. */
export const HOOK_SOCKETS_DIR = "/var/run/kubevirt-hooks";
/** Image with libvirt, QEMU and the tool that copies kernels from container images. */
export const LAUNCHER_IMAGE = "localhost/patchbay/virt-launcher:dev";
/** Image that runs a program as a hook; `hack/images/make-images sidecar-shim` builds the image. */
export const SIDECAR_SHIM_IMAGE = "localhost/patchbay/sidecar-shim:dev";
export const PAUSE_IMAGE = "localhost/patchbay/pause:dev";
/** Container of a launcher pod that runs libvirt and QEMU. Source: KubeVirt. */
export const LAUNCHER_CONTAINER = "compute";
/** Container of a launcher pod that logs the guest's serial console. Source: KubeVirt. */
export const CONSOLE_LOG_CONTAINER = "guest-console-log";
export const DEFAULT_CONTAINER_ANNOTATION = "kubectl.kubernetes.io/default-container";
/** User and group of every launcher. Source: KubeVirt `util.NonRootUID`. */
export const LAUNCHER_UID = 107;
/** Mount path of the launcher volume, and value of XDG_RUNTIME_DIR. */
export const LAUNCHER_DIR = "/run/launcher";
/** Path of libvirt's socket in {@link LAUNCHER_DIR}. Source: libvirt `qemu:///session`. */
export const LIBVIRT_SOCKET = "libvirt/libvirt-sock";
/** Copy of the pod's /etc/resolv.conf, which the launcher creates in {@link LAUNCHER_DIR}. */
export const LAUNCHER_RESOLVER = "resolv.conf";
export const CONSOLE_SOCKET = "serial0.sock";
export const VNC_SOCKET = "vnc.sock";
export const AGENT_SOCKET = "agent.sock";
export const CONSOLE_LOG = "serial0.log";
export const KERNEL_BOOT_DIR = "/run/kernel-boot";
/** Directory of the launcher's volumes. Each volume is mounted under its name. */
export const VOLUMES_DIR = "/run/volumes";
/** Directory of the launcher's block devices. Each device has the name of its volume. */
export const BLOCK_VOLUMES_DIR = "/dev/volumes";
/** emptyDir volume of a launcher pod, mounted at {@link DISKS_DIR}. */
export const DISKS_VOLUME = "disks";
/** Directory of disks that Patchbay creates before the guest starts, for example overlays and cloud-init disks. */
export const DISKS_DIR = "/run/disks";
export const STATE_DIR = "/run/state";
