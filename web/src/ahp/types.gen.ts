// Generated from ahp-types 1.0.0 by scripts/generate-types.mjs. Do not edit.
//
// Values of newer protocol versions are not in these types, but they arrive: code that switches over a tag needs a
// branch for the rest.

export type Uri = string;

export type StringOrMarkdown = string | { markdown: string };

/** The protocol version that these types describe. */
export const PROTOCOL_VERSION = "1.0.0";

export type PolicyState =
  | "enabled"
  | "disabled"
  | "unconfigured";

export type PendingMessageKind =
  | "steering"
  | "queued";

export type SessionLifecycle =
  | "creating"
  | "ready"
  | "failed";

export type SessionStatus = number;

export const SessionStatus = {
  Idle: 1,
  Error: 2,
  InProgress: 8,
  InputNeeded: 24,
  IsRead: 32,
  IsArchived: 64,
} as const;

export type ChatOriginKind =
  | "user"
  | "fork"
  | "sideChat"
  | "tool";

export type ChatInteractivity =
  | "full"
  | "read-only"
  | "hidden";

export type ChatInputAnswerState =
  | "draft"
  | "submitted"
  | "skipped";

export type ChatInputAnswerValueKind =
  | "text"
  | "number"
  | "boolean"
  | "selected"
  | "selected-many";

export type ChatInputQuestionKind =
  | "text"
  | "number"
  | "integer"
  | "boolean"
  | "single-select"
  | "multi-select";

export type ChatInputResponseKind =
  | "accept"
  | "decline"
  | "cancel";

export type SessionInputRequestKind =
  | "chatInput"
  | "toolConfirmation"
  | "toolClientExecution"
  | "toolAuthentication";

export type TurnState =
  | "complete"
  | "cancelled"
  | "error";

export type MessageKind =
  | "user"
  | "agent"
  | "tool"
  | "automation"
  | "systemNotification";

export type MessageAttachmentKind =
  | "simple"
  | "embeddedResource"
  | "resource"
  | "annotations"
  | "chat";

export type ResponsePartKind =
  | "markdown"
  | "contentRef"
  | "toolCall"
  | "reasoning"
  | "systemNotification"
  | "inputRequest"
  | "error";

export type ToolCallStatus =
  | "streaming"
  | "pending-confirmation"
  | "running"
  | "auth-required"
  | "pending-result-confirmation"
  | "completed"
  | "cancelled";

export type ToolCallConfirmationReason =
  | "not-needed"
  | "user-action"
  | "setting";

export type ToolCallRiskAssessmentKind =
  | "judge";

export type ToolCallRiskAssessmentStatus =
  | "loading"
  | "complete";

export type ToolCallCancellationReason =
  | "denied"
  | "skipped"
  | "result-denied";

export type ConfirmationOptionKind =
  | "approve"
  | "deny";

export type ToolCallContributorKind =
  | "client"
  | "mcp";

export type ToolResultContentType =
  | "text"
  | "embeddedResource"
  | "resource"
  | "fileEdit"
  | "terminal"
  | "subagent";

export type CustomizationType =
  | "plugin"
  | "directory"
  | "agent"
  | "skill"
  | "prompt"
  | "rule"
  | "hook"
  | "mcpServer";

export type CustomizationEnablementKind =
  | "global"
  | "workspace"
  | "session";

export type CustomizationLoadStatus =
  | "loading"
  | "loaded"
  | "degraded"
  | "error";

export type TerminalClaimKind =
  | "client"
  | "session";

export type TerminalLifecycleStatus =
  | "running"
  | "exited";

export type BackgroundWorkKind =
  | "shell"
  | "subagent";

export type McpServerStatus =
  | "starting"
  | "ready"
  | "authRequired"
  | "error"
  | "stopped";

export type McpAuthRequiredReason =
  | "required"
  | "expired"
  | "insufficientScope";

export type ChangesetStatus =
  | "computing"
  | "recomputing"
  | "ready"
  | "error";

export type ChangesetOperationStatus =
  | "idle"
  | "running"
  | "error"
  | "disabled";

export type ChangesetOperationScope =
  | "changeset"
  | "resource"
  | "range";

export type ResourceChangeType =
  | "added"
  | "updated"
  | "deleted";

export type SessionOriginKind =
  | "automation";

export type AutomationOperation =
  | "update"
  | "remove"
  | "run";

export type AutomationMisfirePolicy =
  | "skip"
  | "runOnce";

export type AutomationTriggerKind =
  | "schedule"
  | "event";

export type AutomationDisableConditionKind =
  | "afterRuns"
  | "afterDate";

export type AutomationRunStatus =
  | "pending"
  | "running"
  | "completed"
  | "failed"
  | "cancelled";

export type AutomationRunOriginKind =
  | "manual"
  | "trigger";

export interface Icon {
  src: Uri;
  contentType?: string;
  sizes?: string[];
  theme?: string;
}

export interface ProtectedResourceMetadata {
  resource: string;
  resource_name?: string;
  authorization_servers?: string[];
  jwks_uri?: string;
  scopes_supported?: string[];
  bearer_methods_supported?: string[];
  resource_signing_alg_values_supported?: string[];
  resource_documentation?: string;
  resource_policy_uri?: string;
  resource_tos_uri?: string;
  required?: boolean;
}

export interface RootState {
  agents: AgentInfo[];
  activeSessions?: number;
  terminals?: TerminalInfo[];
  config?: RootConfigState;
  _meta?: Record<string, unknown>;
}

export interface RootConfigState {
  schema: ConfigSchema;
  values: Record<string, unknown>;
}

export interface AgentInfo {
  provider: string;
  displayName: string;
  description: string;
  models: SessionModelInfo[];
  protectedResources?: ProtectedResourceMetadata[];
  customizations?: Customization[];
  capabilities?: AgentCapabilities;
}

export interface AgentCapabilities {
  multipleChats?: MultipleChatsCapability;
  multipleWorkingDirectories?: MultipleWorkingDirectoriesCapability;
}

export interface MultipleChatsCapability {
  fork?: boolean;
  sideChat?: boolean;
}

export interface MultipleWorkingDirectoriesCapability {
  immutablePrimary?: boolean;
  primaryReplacement?: boolean;
}

export interface SessionModelInfo {
  id: string;
  provider: string;
  name: string;
  maxContextWindow?: number;
  maxOutputTokens?: number;
  maxPromptTokens?: number;
  supportsVision?: boolean;
  policyState?: PolicyState;
  configSchema?: ConfigSchema;
  _meta?: Record<string, unknown>;
}

export interface ModelSelection {
  id: string;
  config?: Record<string, unknown>;
}

export interface AgentSelection {
  uri: Uri;
}

export interface ConfigPropertySchema {
  type: string;
  title: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  enumLabels?: string[];
  enumDescriptions?: string[];
  readOnly?: boolean;
  items?: ConfigPropertySchema;
  minItems?: number;
  maxItems?: number;
  properties?: Record<string, ConfigPropertySchema>;
  required?: string[];
  additionalProperties?: ConfigPropertySchema;
}

export interface ConfigSchema {
  type: string;
  properties: Record<string, ConfigPropertySchema>;
  required?: string[];
}

export interface PendingMessage {
  id: string;
  message: Message;
}

export interface ChatState {
  resource: Uri;
  title: string;
  status: number;
  activity?: string;
  modifiedAt: string;
  changes?: ChangesSummary;
  origin?: ChatOrigin;
  movable?: boolean;
  interactivity?: ChatInteractivity;
  workingDirectories?: Uri[];
  changesets?: Changeset[];
  backgroundWork?: BackgroundWork[];
  canvases?: CanvasReference[];
  turns: Turn[];
  turnsNextCursor?: string;
  activeTurn?: ActiveTurn;
  steeringMessage?: PendingMessage;
  queuedMessages?: PendingMessage[];
  draft?: Message;
  _meta?: Record<string, unknown>;
}

export interface CanvasReference {
  resource: Uri;
}

export interface CanvasState {
  instanceId: string;
  extensionId: string;
  extensionName?: string;
  canvasId: string;
  title?: string;
  status?: string;
  url?: Uri;
}

export interface ChatSummary {
  resource: Uri;
  title: string;
  status: number;
  activity?: string;
  modifiedAt: string;
  changes?: ChangesSummary;
  origin?: ChatOrigin;
  movable?: boolean;
  interactivity?: ChatInteractivity;
  workingDirectories?: Uri[];
}

export interface BackgroundShellWork {
  kind: "shell";
  id: string;
  label: string;
  startedAt: string;
  _meta?: Record<string, unknown>;
  command: string;
  terminal?: Uri;
}

export interface BackgroundSubagentWork {
  kind: "subagent";
  id: string;
  label: string;
  startedAt: string;
  _meta?: Record<string, unknown>;
  chat: Uri;
}

export interface SideChatSelection {
  text: string;
  responsePartId?: string;
}

export interface SessionState {
  provider: string;
  title: string;
  status: number;
  activity?: string;
  origin?: SessionOrigin;
  project?: ProjectInfo;
  workingDirectories?: Uri[];
  annotations?: AnnotationsSummary;
  lifecycle: SessionLifecycle;
  creationError?: ErrorInfo;
  serverTools?: ToolDefinition[];
  activeClients: SessionActiveClient[];
  chats: ChatSummary[];
  defaultChat?: Uri;
  config?: SessionConfigState;
  customizations?: Customization[];
  changesets?: Changeset[];
  inputNeeded?: SessionInputRequest[];
  _meta?: Record<string, unknown>;
}

export interface SessionActiveClient {
  clientId: string;
  displayName?: string;
  tools: ToolDefinition[];
  customizations?: ClientPluginCustomization[];
}

export interface SessionChatInputRequest {
  kind: "chatInput";
  id: string;
  chat: Uri;
  request: ChatInputRequest;
}

export interface SessionToolConfirmationRequest {
  kind: "toolConfirmation";
  id: string;
  chat: Uri;
  turnId: string;
  toolCall: ToolCallConfirmationState;
}

export interface SessionToolClientExecutionRequest {
  kind: "toolClientExecution";
  id: string;
  chat: Uri;
  turnId: string;
  clientId: string;
  toolCall: ToolCallRunningState;
}

export interface SessionToolAuthenticationRequest {
  kind: "toolAuthentication";
  id: string;
  chat: Uri;
  turnId: string;
  toolCall: ToolCallAuthRequiredState;
}

export interface SessionSummary {
  provider: string;
  title: string;
  status: number;
  activity?: string;
  origin?: SessionOrigin;
  project?: ProjectInfo;
  workingDirectories?: Uri[];
  annotations?: AnnotationsSummary;
  resource: Uri;
  createdAt: string;
  modifiedAt: string;
  changes?: ChangesSummary;
  _meta?: Record<string, unknown>;
  chats?: SessionChatSummary[];
  defaultChat?: Uri;
}

export interface SessionChatSummary {
  resource: Uri;
  title: string;
  origin?: ChatOrigin;
  interactivity?: ChatInteractivity;
  status?: number;
  changes?: ChangesSummary;
}

export interface ChangesSummary {
  additions?: number;
  deletions?: number;
  files?: number;
}

export interface ProjectInfo {
  uri: Uri;
  displayName: string;
}

export interface SessionConfigPropertySchema {
  type: string;
  title: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  enumLabels?: string[];
  enumDescriptions?: string[];
  readOnly?: boolean;
  items?: ConfigPropertySchema;
  minItems?: number;
  maxItems?: number;
  properties?: Record<string, ConfigPropertySchema>;
  required?: string[];
  additionalProperties?: ConfigPropertySchema;
  enumDynamic?: boolean;
  sessionMutable?: boolean;
}

export interface SessionConfigSchema {
  type: string;
  properties: Record<string, SessionConfigPropertySchema>;
  required?: string[];
}

export interface SessionConfigState {
  schema: SessionConfigSchema;
  values: Record<string, unknown>;
}

export interface Turn {
  id: string;
  startedAt?: string;
  duration?: number;
  message: Message;
  responseParts: ResponsePart[];
  usage?: UsageInfo;
  state: TurnState;
}

export interface ActiveTurn {
  id: string;
  startedAt: string;
  message: Message;
  responseParts: ResponsePart[];
  usage?: UsageInfo;
}

export interface Message {
  text: string;
  origin: MessageOrigin;
  attachments?: MessageAttachment[];
  model?: ModelSelection;
  agent?: AgentSelection;
  _meta?: Record<string, unknown>;
}

export interface MessageOrigin {
  kind: MessageKind;
}

export interface ChatInputOption {
  id: string;
  label: string;
  description?: string;
  recommended?: boolean;
}

export interface ChatInputTextAnswerValue {
  kind: "text";
  value: string;
}

export interface ChatInputNumberAnswerValue {
  kind: "number";
  value: number;
}

export interface ChatInputBooleanAnswerValue {
  kind: "boolean";
  value: boolean;
}

export interface ChatInputSelectedAnswerValue {
  kind: "selected";
  value: string;
  freeformValues?: string[];
}

export interface ChatInputSelectedManyAnswerValue {
  kind: "selected-many";
  value: string[];
  freeformValues?: string[];
}

export interface ChatInputAnswered {
  state: "draft" | "submitted";
  value: ChatInputAnswerValue;
}

export interface ChatInputSkipped {
  state: "skipped";
  freeformValues?: string[];
}

export interface ChatInputTextQuestion {
  kind: "text";
  id: string;
  title?: string;
  message: string;
  required?: boolean;
  format?: string;
  min?: number;
  max?: number;
  defaultValue?: string;
}

export interface ChatInputNumberQuestion {
  kind: "number" | "integer";
  id: string;
  title?: string;
  message: string;
  required?: boolean;
  min?: number;
  max?: number;
  defaultValue?: number;
}

export interface ChatInputBooleanQuestion {
  kind: "boolean";
  id: string;
  title?: string;
  message: string;
  required?: boolean;
  defaultValue?: boolean;
}

export interface ChatInputSingleSelectQuestion {
  kind: "single-select";
  id: string;
  title?: string;
  message: string;
  required?: boolean;
  options: ChatInputOption[];
  allowFreeformInput?: boolean;
}

export interface ChatInputMultiSelectQuestion {
  kind: "multi-select";
  id: string;
  title?: string;
  message: string;
  required?: boolean;
  options: ChatInputOption[];
  allowFreeformInput?: boolean;
  min?: number;
  max?: number;
}

export interface ChatInputRequest {
  id: string;
  message?: string;
  url?: Uri;
  questions?: ChatInputQuestion[];
  answers?: Record<string, ChatInputAnswer>;
}

export interface TextPosition {
  line: number;
  character: number;
}

export interface TextRange {
  start: TextPosition;
  end: TextPosition;
}

export interface TextSelection {
  range: TextRange;
}

export interface SimpleMessageAttachment {
  type: "simple";
  label: string;
  range?: TextRange;
  displayKind?: string;
  _meta?: Record<string, unknown>;
  modelRepresentation?: string;
}

export interface MessageEmbeddedResourceAttachment {
  type: "embeddedResource";
  label: string;
  range?: TextRange;
  displayKind?: string;
  _meta?: Record<string, unknown>;
  data: string;
  contentType: string;
  selection?: TextSelection;
}

export interface MessageResourceAttachment {
  type: "resource";
  label: string;
  range?: TextRange;
  displayKind?: string;
  _meta?: Record<string, unknown>;
  uri: Uri;
  sizeHint?: number;
  contentType?: string;
  nonce?: string;
  selection?: TextSelection;
}

export interface MessageAnnotationsAttachment {
  type: "annotations";
  label: string;
  range?: TextRange;
  displayKind?: string;
  _meta?: Record<string, unknown>;
  resource: Uri;
  annotationIds?: string[];
}

export interface MessageChatAttachment {
  type: "chat";
  label: string;
  range?: TextRange;
  displayKind?: string;
  _meta?: Record<string, unknown>;
  resource: Uri;
  endTurn?: string;
}

export interface MarkdownResponsePart {
  kind: "markdown";
  id: string;
  content: string;
}

export interface ContentRef {
  uri: Uri;
  sizeHint?: number;
  contentType?: string;
  nonce?: string;
}

export interface ResourceResponsePart {
  kind: "contentRef";
  uri: Uri;
  sizeHint?: number;
  contentType?: string;
  nonce?: string;
}

export interface ToolCallResponsePart {
  kind: "toolCall";
  toolCall: ToolCallState;
}

export interface ReasoningResponsePart {
  kind: "reasoning";
  id: string;
  content: string;
}

export interface SystemNotificationResponsePart {
  kind: "systemNotification";
  content: StringOrMarkdown;
  _meta?: Record<string, unknown>;
}

export interface InputRequestResponsePart {
  kind: "inputRequest";
  request: ChatInputRequest;
  response?: ChatInputResponseKind;
}

export interface ErrorResponsePart {
  kind: "error";
  error: ErrorInfo;
  resumable?: boolean;
}

export interface ToolCallResult {
  success: boolean;
  pastTenseMessage: StringOrMarkdown;
  content?: ToolResultContent[];
  structuredContent?: Record<string, unknown>;
  error?: unknown;
}

export interface ToolCallRiskAssessmentLoadingState {
  status: "loading";
  kind: ToolCallRiskAssessmentKind;
}

export interface ToolCallRiskAssessmentCompleteState {
  status: "complete";
  kind: ToolCallRiskAssessmentKind;
  reason: StringOrMarkdown;
  safety: number;
}

export interface ConfirmationOption {
  id: string;
  label: string;
  kind: ConfirmationOptionKind;
  group?: number;
}

export interface ToolCallStreamingState {
  status: "streaming";
  toolCallId: string;
  toolName: string;
  displayName: string;
  intention?: string;
  contributor?: ToolCallContributor;
  _meta?: Record<string, unknown>;
  partialInput?: string;
  invocationMessage?: StringOrMarkdown;
}

export interface ToolCallPendingConfirmationState {
  status: "pending-confirmation";
  toolCallId: string;
  toolName: string;
  displayName: string;
  intention?: string;
  contributor?: ToolCallContributor;
  _meta?: Record<string, unknown>;
  invocationMessage: StringOrMarkdown;
  toolInput?: ToolInput;
  confirmationTitle?: StringOrMarkdown;
  riskAssessment?: ToolCallRiskAssessment;
  edits?: FileEditCollection;
  editable?: boolean;
  options?: ConfirmationOption[];
}

export interface ToolCallRunningState {
  status: "running";
  toolCallId: string;
  toolName: string;
  displayName: string;
  intention?: string;
  contributor?: ToolCallContributor;
  _meta?: Record<string, unknown>;
  invocationMessage: StringOrMarkdown;
  toolInput?: ToolInput;
  confirmed: ToolCallConfirmationReason;
  selectedOption?: ConfirmationOption;
  content?: ToolResultContent[];
}

export interface ToolCallAuthRequiredState {
  status: "auth-required";
  toolCallId: string;
  toolName: string;
  displayName: string;
  intention?: string;
  contributor?: ToolCallContributor;
  _meta?: Record<string, unknown>;
  invocationMessage: StringOrMarkdown;
  toolInput?: ToolInput;
  confirmed: ToolCallConfirmationReason;
  selectedOption?: ConfirmationOption;
  auth: McpAuthRequirement;
  content?: ToolResultContent[];
}

export interface ToolCallPendingResultConfirmationState {
  status: "pending-result-confirmation";
  toolCallId: string;
  toolName: string;
  displayName: string;
  intention?: string;
  contributor?: ToolCallContributor;
  _meta?: Record<string, unknown>;
  invocationMessage: StringOrMarkdown;
  toolInput?: ToolInput;
  success: boolean;
  pastTenseMessage: StringOrMarkdown;
  content?: ToolResultContent[];
  structuredContent?: Record<string, unknown>;
  error?: unknown;
  confirmed: ToolCallConfirmationReason;
  selectedOption?: ConfirmationOption;
}

export interface ToolCallCompletedState {
  status: "completed";
  toolCallId: string;
  toolName: string;
  displayName: string;
  intention?: string;
  contributor?: ToolCallContributor;
  _meta?: Record<string, unknown>;
  invocationMessage: StringOrMarkdown;
  toolInput?: ToolInput;
  success: boolean;
  pastTenseMessage: StringOrMarkdown;
  content?: ToolResultContent[];
  structuredContent?: Record<string, unknown>;
  error?: unknown;
  confirmed: ToolCallConfirmationReason;
  selectedOption?: ConfirmationOption;
}

export interface ToolCallCancelledState {
  status: "cancelled";
  toolCallId: string;
  toolName: string;
  displayName: string;
  intention?: string;
  contributor?: ToolCallContributor;
  _meta?: Record<string, unknown>;
  invocationMessage: StringOrMarkdown;
  toolInput?: ToolInput;
  reason: ToolCallCancellationReason;
  reasonMessage?: StringOrMarkdown;
  userSuggestion?: Message;
  selectedOption?: ConfirmationOption;
}

export interface ToolDefinition {
  name: string;
  title?: string;
  description?: string;
  inputSchema?: unknown;
  outputSchema?: unknown;
  annotations?: ToolAnnotations;
  _meta?: Record<string, unknown>;
}

export interface ToolAnnotations {
  title?: string;
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
}

export interface ToolResultTextContent {
  type: "text";
  text: string;
}

export interface ToolResultEmbeddedResourceContent {
  type: "embeddedResource";
  data: string;
  contentType: string;
}

export interface ToolResultResourceContent {
  type: "resource";
  uri: Uri;
  sizeHint?: number;
  contentType?: string;
  nonce?: string;
}

export interface ToolResultFileEditContent {
  type: "fileEdit";
  before?: FileEditSide;
  after?: FileEditSide;
  diff?: FileEditDiffStats;
}

export interface ToolResultTerminalContent {
  type: "terminal";
  resource: Uri;
  title: string;
  isPty?: boolean;
  result?: TerminalCommandResult;
}

export interface ToolResultSubagentContent {
  type: "subagent";
  resource: Uri;
  title: string;
  agentName?: string;
  description?: string;
}

export interface CustomizationLoadingState {
  kind: "loading";
}

export interface CustomizationLoadedState {
  kind: "loaded";
}

export interface CustomizationDegradedState {
  kind: "degraded";
  message: string;
}

export interface CustomizationErrorState {
  kind: "error";
  message: string;
}

export interface PluginCustomization {
  type: "plugin";
  id: string;
  uri: Uri;
  name: string;
  icons?: Icon[];
  range?: TextRange;
  _meta?: Record<string, unknown>;
  clientId?: string;
  load?: CustomizationLoadState;
  children?: ChildCustomization[];
  enablement?: CustomizationEnablement[];
  version?: string;
}

export interface ClientPluginCustomization {
  id: string;
  uri: Uri;
  name: string;
  icons?: Icon[];
  range?: TextRange;
  _meta?: Record<string, unknown>;
  clientId?: string;
  load?: CustomizationLoadState;
  children?: ChildCustomization[];
  type: CustomizationType;
  enablement?: CustomizationEnablement[];
  version?: string;
  nonce?: string;
  childEnablement?: Record<string, CustomizationEnablement[]>;
}

export interface DirectoryCustomization {
  type: "directory";
  id: string;
  uri: Uri;
  name: string;
  icons?: Icon[];
  range?: TextRange;
  _meta?: Record<string, unknown>;
  clientId?: string;
  load?: CustomizationLoadState;
  children?: ChildCustomization[];
  enabled: boolean;
  contents: CustomizationType;
  writable: boolean;
}

export interface AgentCustomization {
  type: "agent";
  id: string;
  uri: Uri;
  name: string;
  icons?: Icon[];
  range?: TextRange;
  _meta?: Record<string, unknown>;
  enabled?: boolean;
  description?: string;
  model?: string;
  tools?: string[];
  disableModelInvocation?: boolean;
  disableUserInvocation?: boolean;
}

export interface SkillCustomization {
  type: "skill";
  id: string;
  uri: Uri;
  name: string;
  icons?: Icon[];
  range?: TextRange;
  _meta?: Record<string, unknown>;
  enabled?: boolean;
  description?: string;
  disableModelInvocation?: boolean;
  disableUserInvocation?: boolean;
}

export interface PromptCustomization {
  type: "prompt";
  id: string;
  uri: Uri;
  name: string;
  icons?: Icon[];
  range?: TextRange;
  _meta?: Record<string, unknown>;
  enabled?: boolean;
  description?: string;
}

export interface RuleCustomization {
  type: "rule";
  id: string;
  uri: Uri;
  name: string;
  icons?: Icon[];
  range?: TextRange;
  _meta?: Record<string, unknown>;
  enabled?: boolean;
  description?: string;
  alwaysApply?: boolean;
  globs?: string[];
}

export interface HookCustomization {
  type: "hook";
  id: string;
  uri: Uri;
  name: string;
  icons?: Icon[];
  range?: TextRange;
  _meta?: Record<string, unknown>;
  enabled?: boolean;
}

export interface McpServerCustomization {
  type: "mcpServer";
  id: string;
  uri: Uri;
  name: string;
  icons?: Icon[];
  range?: TextRange;
  _meta?: Record<string, unknown>;
  enablement?: CustomizationEnablement[];
  state: McpServerState;
  channel?: Uri;
  mcpApp?: McpServerCustomizationApps;
}

export interface McpServerCustomizationApps {
  capabilities: AhpMcpUiHostCapabilities;
}

export interface AhpMcpUiHostCapabilities {
  serverTools?: unknown;
  serverResources?: unknown;
  logging?: Record<string, unknown>;
  sampling?: unknown;
}

export interface McpServerStartingState {
  kind: "starting";
  blocking?: boolean;
}

export interface McpServerReadyState {
  kind: "ready";
}

export interface McpServerAuthRequiredState {
  kind: "authRequired";
  reason: McpAuthRequiredReason;
  oauthClient?: McpOAuthClient;
  resource: ProtectedResourceMetadata;
  requiredScopes?: string[];
  description?: string;
}

export interface McpServerErrorState {
  kind: "error";
  error: ErrorInfo;
}

export interface McpServerStoppedState {
  kind: "stopped";
}

export interface McpOAuthClient {
  clientId: string;
  clientSecret?: string;
}

export interface McpAuthRequirement {
  reason: McpAuthRequiredReason;
  oauthClient?: McpOAuthClient;
  resource: ProtectedResourceMetadata;
  requiredScopes?: string[];
  description?: string;
}

export interface ToolCallClientContributor {
  kind: "client";
  clientId: string;
}

export interface ToolCallMcpContributor {
  kind: "mcp";
  customizationId: string;
}

export interface FileEditSide {
  uri: Uri;
  content: ContentRef;
}

export interface FileEditDiffStats {
  added?: number;
  removed?: number;
}

export interface FileEdit {
  before?: FileEditSide;
  after?: FileEditSide;
  diff?: FileEditDiffStats;
}

export interface FileEditCollection {
  items: FileEdit[];
}

export interface TerminalCommandResult {
  exitCode?: number;
  preview?: string;
  truncated?: boolean;
}

export interface TerminalInfo {
  resource: Uri;
  title: string;
  claim: TerminalClaim;
  lifecycle: TerminalLifecycleState;
}

export interface TerminalClientClaim {
  kind: "client";
  clientId: string;
}

export interface TerminalSessionClaim {
  kind: "session";
  session: Uri;
  chat: Uri;
  turnId?: string;
  toolCallId?: string;
}

export interface TerminalRunningLifecycleState {
  status: "running";
}

export interface TerminalExitedLifecycleState {
  status: "exited";
  exitCode?: number;
}

export interface TerminalState {
  title: string;
  cwd?: Uri;
  cols?: number;
  rows?: number;
  content: TerminalContentPart[];
  lifecycle: TerminalLifecycleState;
  claim: TerminalClaim;
  supportsCommandDetection?: boolean;
  isPty?: boolean;
}

export interface TerminalUnclassifiedPart {
  type: "unclassified";
  value: string;
}

export interface TerminalCommandPart {
  type: "command";
  commandId: string;
  commandLine: string;
  output: string;
  timestamp: number;
  isComplete: boolean;
  exitCode?: number;
  durationMs?: number;
}

export interface UsageInfo {
  inputTokens?: number;
  outputTokens?: number;
  model?: string;
  cacheReadTokens?: number;
  _meta?: Record<string, unknown>;
}

export interface ErrorInfo {
  errorType: string;
  message: string;
  stack?: string;
  _meta?: Record<string, unknown>;
}

export interface Snapshot {
  resource: Uri;
  state: SnapshotState;
  fromSeq: number;
}

export interface Changeset {
  label: string;
  uriTemplate: string;
  description?: string;
  changeKind: string;
  capabilities?: ChangesetCapabilities;
}

export interface ChangesetCapabilities {
  review?: Record<string, unknown>;
}

export interface ChangesetState {
  status: ChangesetStatus;
  error?: ErrorInfo;
  files: ChangesetFile[];
  operations?: ChangesetOperation[];
}

export interface ChangesetFile {
  id: string;
  edit: FileEdit;
  reviewed?: boolean;
  _meta?: Record<string, unknown>;
}

export interface ChangesetOperation {
  id: string;
  label: string;
  description?: string;
  scopes: ChangesetOperationScope[];
  confirmation?: StringOrMarkdown;
  icon?: string;
  group?: string;
  status: ChangesetOperationStatus;
  error?: ErrorInfo;
}

export interface AnnotationsSummary {
  resource: Uri;
  annotationCount: number;
  entryCount: number;
}

export interface AnnotationsState {
  annotations: Annotation[];
}

export interface AnnotationOrigin {
  session: Uri;
  chat?: Uri;
  turnId?: string;
}

export interface Annotation {
  id: string;
  origin: AnnotationOrigin;
  resource: Uri;
  range?: TextRange;
  resolved: boolean;
  entries: AnnotationEntry[];
  _meta?: Record<string, unknown>;
}

export interface AnnotationEntry {
  id: string;
  text: StringOrMarkdown;
  _meta?: Record<string, unknown>;
}

export interface TelemetryCapabilities {
  logs?: Uri;
  traces?: Uri;
  metrics?: Uri;
}

export interface ResourceWatchState {
  root: Uri;
  recursive: boolean;
  excludes?: unknown;
  includes?: unknown;
}

export interface ResourceChange {
  uri: Uri;
  type: ResourceChangeType;
}

export interface AutomationSessionOrigin {
  kind: "automation";
  automation: Uri;
  run: Uri;
}

export interface AutomationSchedule {
  expression: string;
  timeZone: string;
}

export interface AutomationScheduleTrigger {
  kind: "schedule";
  id: string;
  schedule: AutomationSchedule;
  misfirePolicy?: AutomationMisfirePolicy;
}

export interface AutomationEventTrigger {
  kind: "event";
  id: string;
  type: string;
  title: string;
  description?: string;
  events: AutomationTriggerEventDefinition[];
  config?: Record<string, unknown>;
}

export interface AutomationTriggerEventDefinition {
  id: string;
  title: string;
  description?: string;
}

export interface AutomationTriggerDefinition {
  type: string;
  title: string;
  description?: string;
  events: AutomationTriggerEventDefinition[];
  configSchema?: ConfigSchema;
}

export interface AutomationSessionTemplate {
  provider?: string;
  model?: ModelSelection;
  agent?: AgentSelection;
  workingDirectories?: Uri[];
  config?: Record<string, unknown>;
  customizations?: ClientPluginCustomization[];
}

export interface AutomationDefinition {
  title: string;
  message: Message;
  session: AutomationSessionTemplate;
  enabled: boolean;
  triggers: AutomationTrigger[];
  disableConditions?: AutomationDisableCondition[];
  _meta?: Record<string, unknown>;
}

export interface AutomationDefinitionPatch {
  title?: string;
  message?: Message;
  session?: AutomationSessionTemplate;
  enabled?: boolean;
  triggers?: AutomationTrigger[];
  disableConditions?: AutomationDisableCondition[];
  _meta?: Record<string, unknown>;
}

export interface AutomationAfterRunsCondition {
  kind: "afterRuns";
  max: number;
}

export interface AutomationAfterDateCondition {
  kind: "afterDate";
  date: string;
}

export interface AutomationEntry {
  resource: Uri;
  definition: AutomationDefinition;
  nextRunAt?: string;
  runCount?: number;
  runs: AutomationRunSummary[];
  runsNextCursor?: string;
  operations: AutomationOperation[];
  customizations?: PluginCustomization[];
  createdAt: string;
  modifiedAt: string;
  _meta?: Record<string, unknown>;
}

export interface AutomationState {
  entries: AutomationEntry[];
  _meta?: Record<string, unknown>;
}

export interface AutomationManualRunOrigin {
  kind: "manual";
}

export interface AutomationTriggeredRunOrigin {
  kind: "trigger";
  triggerId: string;
  scheduledFor?: string;
  catchUp?: boolean;
  event?: Record<string, unknown>;
}

export interface AutomationPendingRunLifecycle {
  status: "pending";
  createdAt: string;
}

export interface AutomationRunningRunLifecycle {
  status: "running";
  createdAt: string;
  startedAt: string;
}

export interface AutomationCompletedRunLifecycle {
  status: "completed";
  createdAt: string;
  startedAt: string;
  completedAt: string;
  usage?: UsageInfo;
}

export interface AutomationFailedRunLifecycle {
  status: "failed";
  createdAt: string;
  startedAt?: string;
  completedAt: string;
  error: ErrorInfo;
}

export interface AutomationCancelledRunLifecycle {
  status: "cancelled";
  createdAt: string;
  startedAt?: string;
  completedAt: string;
}

export interface AutomationRunSummary {
  resource: Uri;
  automation: Uri;
  origin: AutomationRunOrigin;
  lifecycle: AutomationRunLifecycle;
  primarySession?: Uri;
  sessionCount: number;
  _meta?: Record<string, unknown>;
}

export interface AutomationRunState {
  resource: Uri;
  automation: Uri;
  origin: AutomationRunOrigin;
  lifecycle: AutomationRunLifecycle;
  sessions: Uri[];
  primarySession?: Uri;
  _meta?: Record<string, unknown>;
}

export type CustomizationEnablement =
  | { kind: "global"; enabled: boolean }
  | { kind: "workspace"; uri: Uri; enabled: boolean }
  | { kind: "session"; enabled: boolean };

export type ToolInput =
  | string
  | ContentRef;

export type ChatOrigin =
  | { kind: "user" }
  | { kind: "fork"; chat: Uri; turnId: string }
  | { kind: "sideChat"; chat: Uri; turnId: string; selection?: SideChatSelection }
  | { kind: "tool"; chat: Uri; toolCallId: string };

export type ResponsePart =
  | MarkdownResponsePart
  | ResourceResponsePart
  | ToolCallResponsePart
  | ReasoningResponsePart
  | SystemNotificationResponsePart
  | InputRequestResponsePart
  | ErrorResponsePart;

export type ToolCallState =
  | ToolCallStreamingState
  | ToolCallPendingConfirmationState
  | ToolCallRunningState
  | ToolCallAuthRequiredState
  | ToolCallPendingResultConfirmationState
  | ToolCallCompletedState
  | ToolCallCancelledState;

export type ToolCallConfirmationState =
  | ToolCallPendingConfirmationState
  | ToolCallPendingResultConfirmationState;

export type TerminalClaim =
  | TerminalClientClaim
  | TerminalSessionClaim;

export type TerminalContentPart =
  | TerminalUnclassifiedPart
  | TerminalCommandPart;

export type ChatInputQuestion =
  | ChatInputTextQuestion
  | ChatInputNumberQuestion
  | ChatInputNumberQuestion
  | ChatInputBooleanQuestion
  | ChatInputSingleSelectQuestion
  | ChatInputMultiSelectQuestion;

export type ChatInputAnswerValue =
  | ChatInputTextAnswerValue
  | ChatInputNumberAnswerValue
  | ChatInputBooleanAnswerValue
  | ChatInputSelectedAnswerValue
  | ChatInputSelectedManyAnswerValue;

export type ChatInputAnswer =
  | ChatInputAnswered
  | ChatInputAnswered
  | ChatInputSkipped;

export type ToolResultContent =
  | ToolResultTextContent
  | ToolResultEmbeddedResourceContent
  | ToolResultResourceContent
  | ToolResultFileEditContent
  | ToolResultTerminalContent
  | ToolResultSubagentContent;

export type MessageAttachment =
  | SimpleMessageAttachment
  | MessageEmbeddedResourceAttachment
  | MessageResourceAttachment
  | MessageAnnotationsAttachment
  | MessageChatAttachment;

export type Customization =
  | PluginCustomization
  | DirectoryCustomization
  | McpServerCustomization;

export type ChildCustomization =
  | AgentCustomization
  | SkillCustomization
  | PromptCustomization
  | RuleCustomization
  | HookCustomization
  | McpServerCustomization;

export type CustomizationLoadState =
  | CustomizationLoadingState
  | CustomizationLoadedState
  | CustomizationDegradedState
  | CustomizationErrorState;

export type McpServerState =
  | McpServerStartingState
  | McpServerReadyState
  | McpServerAuthRequiredState
  | McpServerErrorState
  | McpServerStoppedState;

export type ToolCallContributor =
  | ToolCallClientContributor
  | ToolCallMcpContributor;

export type ToolCallRiskAssessment =
  | ToolCallRiskAssessmentLoadingState
  | ToolCallRiskAssessmentCompleteState;

export type TerminalLifecycleState =
  | TerminalRunningLifecycleState
  | TerminalExitedLifecycleState;

export type SessionInputRequest =
  | SessionChatInputRequest
  | SessionToolConfirmationRequest
  | SessionToolClientExecutionRequest
  | SessionToolAuthenticationRequest;

export type BackgroundWork =
  | BackgroundShellWork
  | BackgroundSubagentWork;

export type SessionOrigin =
  | AutomationSessionOrigin;

export type AutomationTrigger =
  | AutomationScheduleTrigger
  | AutomationEventTrigger;

export type AutomationDisableCondition =
  | AutomationAfterRunsCondition
  | AutomationAfterDateCondition;

export type AutomationRunOrigin =
  | AutomationManualRunOrigin
  | AutomationTriggeredRunOrigin;

export type AutomationRunLifecycle =
  | AutomationPendingRunLifecycle
  | AutomationRunningRunLifecycle
  | AutomationCompletedRunLifecycle
  | AutomationFailedRunLifecycle
  | AutomationCancelledRunLifecycle;

export type SnapshotState =
  | SessionState
  | ChatState
  | CanvasState
  | TerminalState
  | ChangesetState
  | ResourceWatchState
  | AnnotationsState
  | AutomationState
  | AutomationRunState
  | RootState;

export type ActionType =
  | "root/agentsChanged"
  | "root/activeSessionsChanged"
  | "session/ready"
  | "session/creationFailed"
  | "session/chatAdded"
  | "session/chatRemoved"
  | "session/chatUpdated"
  | "session/chatsReordered"
  | "session/defaultChatChanged"
  | "chat/turnStarted"
  | "chat/delta"
  | "chat/responsePart"
  | "chat/toolCallStart"
  | "chat/toolCallDelta"
  | "chat/toolCallReady"
  | "chat/toolCallConfirmed"
  | "chat/toolCallComplete"
  | "chat/toolCallResultConfirmed"
  | "chat/toolCallContentChanged"
  | "chat/toolCallAuthRequired"
  | "chat/toolCallAuthResolved"
  | "chat/turnComplete"
  | "chat/turnCancelled"
  | "chat/error"
  | "chat/turnResume"
  | "chat/activityChanged"
  | "chat/backgroundWorkSet"
  | "chat/backgroundWorkRemoved"
  | "chat/movableChanged"
  | "chat/changesetsChanged"
  | "chat/canvasesChanged"
  | "canvas/stateChanged"
  | "chat/workingDirectorySet"
  | "chat/workingDirectoryRemoved"
  | "session/titleChanged"
  | "chat/usage"
  | "chat/reasoning"
  | "session/serverToolsChanged"
  | "session/activeClientSet"
  | "session/activeClientRemoved"
  | "session/workingDirectorySet"
  | "session/workingDirectoryRemoved"
  | "session/workingDirectoryReplaced"
  | "session/inputNeededSet"
  | "session/inputNeededRemoved"
  | "chat/pendingMessageSet"
  | "chat/pendingMessageRemoved"
  | "chat/queuedMessagesReordered"
  | "chat/draftChanged"
  | "chat/isReadChanged"
  | "chat/isArchivedChanged"
  | "chat/inputRequested"
  | "chat/inputAnswerChanged"
  | "chat/inputCompleted"
  | "session/customizationsChanged"
  | "session/customizationToggled"
  | "session/customizationUpdated"
  | "session/customizationRemoved"
  | "session/mcpServerStateChanged"
  | "session/mcpServerStartRequested"
  | "session/mcpServerStopRequested"
  | "session/mcpServerBackgroundRequested"
  | "chat/truncated"
  | "chat/turnsLoaded"
  | "session/isReadChanged"
  | "session/isArchivedChanged"
  | "session/activityChanged"
  | "session/changesetsChanged"
  | "session/configChanged"
  | "session/metaChanged"
  | "changeset/statusChanged"
  | "changeset/fileSet"
  | "changeset/fileRemoved"
  | "changeset/filesReviewChanged"
  | "changeset/contentChanged"
  | "changeset/operationsChanged"
  | "changeset/operationStatusChanged"
  | "changeset/cleared"
  | "annotations/set"
  | "annotations/updated"
  | "annotations/removed"
  | "annotations/entrySet"
  | "annotations/entryRemoved"
  | "root/terminalsChanged"
  | "root/configChanged"
  | "terminal/data"
  | "terminal/input"
  | "terminal/resized"
  | "terminal/claimed"
  | "terminal/titleChanged"
  | "terminal/cwdChanged"
  | "terminal/exited"
  | "terminal/cleared"
  | "terminal/commandDetectionAvailable"
  | "terminal/commandExecuted"
  | "terminal/commandFinished"
  | "resourceWatch/changed"
  | "automation/createRequested"
  | "automation/updateRequested"
  | "automation/set"
  | "automation/removed"
  | "automationRun/lifecycleChanged"
  | "automationRun/sessionSet"
  | "automationRun/sessionRemoved"
  | "automationRun/primarySessionChanged"
  | "automationRun/cancelRequested";

export interface ActionOrigin {
  clientId: string;
  clientSeq: number;
}

export interface ActionEnvelope {
  channel: Uri;
  action: StateAction;
  serverSeq: number;
  origin?: ActionOrigin;
  rejectionReason?: string;
}

export interface RootAgentsChangedAction {
  type: "root/agentsChanged";
  agents: AgentInfo[];
}

export interface RootActiveSessionsChangedAction {
  type: "root/activeSessionsChanged";
  activeSessions: number;
}

export interface RootConfigChangedAction {
  type: "root/configChanged";
  config: Record<string, unknown>;
  replace?: boolean;
}

export interface SessionReadyAction {
  type: "session/ready";
}

export interface SessionCreationFailedAction {
  type: "session/creationFailed";
  error: ErrorInfo;
}

export interface SessionChatAddedAction {
  type: "session/chatAdded";
  summary: ChatSummary;
}

export interface SessionChatRemovedAction {
  type: "session/chatRemoved";
  chat: Uri;
}

export interface SessionChatUpdatedAction {
  type: "session/chatUpdated";
  chat: Uri;
  changes: PartialChatSummary;
}

export interface SessionChatsReorderedAction {
  type: "session/chatsReordered";
  chats: Uri[];
}

export interface SessionDefaultChatChangedAction {
  type: "session/defaultChatChanged";
  defaultChat?: Uri;
}

export interface ChatTurnStartedAction {
  type: "chat/turnStarted";
  turnId: string;
  startedAt: string;
  message: Message;
  queuedMessageId?: string;
  _meta?: Record<string, unknown>;
}

export interface ChatDeltaAction {
  type: "chat/delta";
  turnId: string;
  partId: string;
  content: string;
  _meta?: Record<string, unknown>;
}

export interface ChatResponsePartAction {
  type: "chat/responsePart";
  turnId: string;
  part: ResponsePart;
  _meta?: Record<string, unknown>;
}

export interface ChatToolCallStartAction {
  type: "chat/toolCallStart";
  turnId: string;
  toolCallId: string;
  _meta?: Record<string, unknown>;
  toolName: string;
  displayName: string;
  intention?: string;
  contributor?: ToolCallContributor;
}

export interface ChatToolCallDeltaAction {
  type: "chat/toolCallDelta";
  turnId: string;
  toolCallId: string;
  _meta?: Record<string, unknown>;
  content?: string;
  invocationMessage?: StringOrMarkdown;
}

export interface ChatToolCallReadyAction {
  type: "chat/toolCallReady";
  turnId: string;
  toolCallId: string;
  _meta?: Record<string, unknown>;
  contributor?: ToolCallContributor;
  intention?: string;
  invocationMessage: StringOrMarkdown;
  toolInput?: ToolInput;
  confirmationTitle?: StringOrMarkdown;
  riskAssessment?: ToolCallRiskAssessment;
  edits?: FileEditCollection;
  editable?: boolean;
  confirmed?: ToolCallConfirmationReason;
  options?: ConfirmationOption[];
}

export interface ChatToolCallConfirmedAction {
  type: "chat/toolCallConfirmed";
  turnId: string;
  toolCallId: string;
  _meta?: Record<string, unknown>;
  approved: boolean;
  confirmed?: ToolCallConfirmationReason;
  reason?: ToolCallCancellationReason;
  editedToolInput?: string;
  userSuggestion?: Message;
  reasonMessage?: StringOrMarkdown;
  selectedOptionId?: string;
}

export interface ChatToolCallCompleteAction {
  type: "chat/toolCallComplete";
  turnId: string;
  toolCallId: string;
  _meta?: Record<string, unknown>;
  result: ToolCallResult;
  requiresResultConfirmation?: boolean;
}

export interface ChatToolCallResultConfirmedAction {
  type: "chat/toolCallResultConfirmed";
  turnId: string;
  toolCallId: string;
  _meta?: Record<string, unknown>;
  approved: boolean;
}

export interface ChatToolCallContentChangedAction {
  type: "chat/toolCallContentChanged";
  turnId: string;
  toolCallId: string;
  _meta?: Record<string, unknown>;
  content: ToolResultContent[];
}

export interface ChatToolCallAuthRequiredAction {
  type: "chat/toolCallAuthRequired";
  turnId: string;
  toolCallId: string;
  _meta?: Record<string, unknown>;
  auth: McpAuthRequirement;
}

export interface ChatToolCallAuthResolvedAction {
  type: "chat/toolCallAuthResolved";
  turnId: string;
  toolCallId: string;
  _meta?: Record<string, unknown>;
}

export interface ChatTurnCompleteAction {
  type: "chat/turnComplete";
  turnId: string;
  duration: number;
  _meta?: Record<string, unknown>;
}

export interface ChatTurnCancelledAction {
  type: "chat/turnCancelled";
  turnId: string;
  duration: number;
  _meta?: Record<string, unknown>;
}

export interface ChatErrorAction {
  type: "chat/error";
  turnId: string;
  duration: number;
  part: ErrorResponsePart;
  _meta?: Record<string, unknown>;
}

export interface ChatTurnResumeAction {
  type: "chat/turnResume";
  turnId: string;
}

export interface ChatActivityChangedAction {
  type: "chat/activityChanged";
  activity?: string;
}

export interface ChatBackgroundWorkSetAction {
  type: "chat/backgroundWorkSet";
  work: BackgroundWork;
}

export interface ChatBackgroundWorkRemovedAction {
  type: "chat/backgroundWorkRemoved";
  id: string;
}

export interface ChatMovableChangedAction {
  type: "chat/movableChanged";
  movable: boolean;
}

export interface ChatChangesetsChangedAction {
  type: "chat/changesetsChanged";
  changesets?: Changeset[];
}

export interface ChatCanvasesChangedAction {
  type: "chat/canvasesChanged";
  canvases?: CanvasReference[];
}

export interface CanvasStateChangedAction {
  type: "canvas/stateChanged";
  canvas: CanvasState;
}

export interface SessionTitleChangedAction {
  type: "session/titleChanged";
  title: string;
}

export interface ChatUsageAction {
  type: "chat/usage";
  turnId: string;
  usage: UsageInfo;
  _meta?: Record<string, unknown>;
}

export interface ChatReasoningAction {
  type: "chat/reasoning";
  turnId: string;
  partId: string;
  content: string;
  _meta?: Record<string, unknown>;
}

export interface SessionIsReadChangedAction {
  type: "session/isReadChanged";
  isRead: boolean;
}

export interface SessionIsArchivedChangedAction {
  type: "session/isArchivedChanged";
  isArchived: boolean;
}

export interface SessionActivityChangedAction {
  type: "session/activityChanged";
  activity?: string;
}

export interface SessionChangesetsChangedAction {
  type: "session/changesetsChanged";
  changesets?: Changeset[];
}

export interface SessionServerToolsChangedAction {
  type: "session/serverToolsChanged";
  tools: ToolDefinition[];
}

export interface SessionActiveClientSetAction {
  type: "session/activeClientSet";
  activeClient: SessionActiveClient;
}

export interface SessionActiveClientRemovedAction {
  type: "session/activeClientRemoved";
  clientId: string;
}

export interface SessionWorkingDirectorySetAction {
  type: "session/workingDirectorySet";
  directory: Uri;
}

export interface SessionWorkingDirectoryRemovedAction {
  type: "session/workingDirectoryRemoved";
  directory: Uri;
}

export interface SessionWorkingDirectoryReplacedAction {
  type: "session/workingDirectoryReplaced";
  directory: Uri;
  replacement: Uri;
}

export interface ChatWorkingDirectorySetAction {
  type: "chat/workingDirectorySet";
  directory: Uri;
}

export interface ChatWorkingDirectoryRemovedAction {
  type: "chat/workingDirectoryRemoved";
  directory: Uri;
}

export interface SessionInputNeededSetAction {
  type: "session/inputNeededSet";
  request: SessionInputRequest;
}

export interface SessionInputNeededRemovedAction {
  type: "session/inputNeededRemoved";
  id: string;
}

export interface ChatPendingMessageSetAction {
  type: "chat/pendingMessageSet";
  kind: PendingMessageKind;
  id: string;
  message: Message;
}

export interface ChatPendingMessageRemovedAction {
  type: "chat/pendingMessageRemoved";
  kind: PendingMessageKind;
  id: string;
}

export interface ChatQueuedMessagesReorderedAction {
  type: "chat/queuedMessagesReordered";
  order: string[];
}

export interface ChatDraftChangedAction {
  type: "chat/draftChanged";
  draft?: Message;
}

export interface ChatIsReadChangedAction {
  type: "chat/isReadChanged";
  isRead: boolean;
}

export interface ChatIsArchivedChangedAction {
  type: "chat/isArchivedChanged";
  isArchived: boolean;
}

export interface ChatInputRequestedAction {
  type: "chat/inputRequested";
  request: ChatInputRequest;
}

export interface ChatInputAnswerChangedAction {
  type: "chat/inputAnswerChanged";
  requestId: string;
  questionId: string;
  answer?: ChatInputAnswer;
}

export interface ChatInputCompletedAction {
  type: "chat/inputCompleted";
  requestId: string;
  response: ChatInputResponseKind;
  answers?: Record<string, ChatInputAnswer>;
}

export interface SessionCustomizationsChangedAction {
  type: "session/customizationsChanged";
  customizations: Customization[];
}

export interface SessionCustomizationToggledAction {
  type: "session/customizationToggled";
  id: string;
  enablement: CustomizationEnablement[];
}

export interface SessionCustomizationUpdatedAction {
  type: "session/customizationUpdated";
  customization: Customization;
}

export interface SessionCustomizationRemovedAction {
  type: "session/customizationRemoved";
  id: string;
}

export interface SessionMcpServerStateChangedAction {
  type: "session/mcpServerStateChanged";
  id: string;
  state: McpServerState;
  channel?: Uri;
}

export interface SessionMcpServerStartRequestedAction {
  type: "session/mcpServerStartRequested";
  id: string;
}

export interface SessionMcpServerStopRequestedAction {
  type: "session/mcpServerStopRequested";
  id: string;
}

export interface SessionMcpServerBackgroundRequestedAction {
  type: "session/mcpServerBackgroundRequested";
  id: string;
}

export interface ChatTruncatedAction {
  type: "chat/truncated";
  turnId?: string;
}

export interface ChatTurnsLoadedAction {
  type: "chat/turnsLoaded";
  turns: Turn[];
  turnsNextCursor?: string;
}

export interface SessionConfigChangedAction {
  type: "session/configChanged";
  config: Record<string, unknown>;
  replace?: boolean;
}

export interface SessionMetaChangedAction {
  type: "session/metaChanged";
  _meta?: Record<string, unknown>;
}

export interface ChangesetStatusChangedAction {
  type: "changeset/statusChanged";
  status: ChangesetStatus;
  error?: ErrorInfo;
}

export interface ChangesetFileSetAction {
  type: "changeset/fileSet";
  file: ChangesetFile;
}

export interface ChangesetFileRemovedAction {
  type: "changeset/fileRemoved";
  fileId: string;
}

export interface ChangesetFilesReviewChangedAction {
  type: "changeset/filesReviewChanged";
  files: string[];
  reviewed: boolean;
}

export interface ChangesetContentChangedAction {
  type: "changeset/contentChanged";
  files: ChangesetFile[];
  operations?: ChangesetOperation[];
}

export interface ChangesetOperationsChangedAction {
  type: "changeset/operationsChanged";
  operations?: ChangesetOperation[];
}

export interface ChangesetOperationStatusChangedAction {
  type: "changeset/operationStatusChanged";
  operationId: string;
  status: ChangesetOperationStatus;
  error?: ErrorInfo;
}

export interface ChangesetClearedAction {
  type: "changeset/cleared";
}

export interface AnnotationsSetAction {
  type: "annotations/set";
  annotation: Annotation;
}

export interface AnnotationsUpdatedAction {
  type: "annotations/updated";
  annotationId: string;
  origin?: AnnotationOrigin;
  resource?: Uri;
  range?: TextRange;
  resolved?: boolean;
}

export interface AnnotationsRemovedAction {
  type: "annotations/removed";
  annotationId: string;
}

export interface AnnotationsEntrySetAction {
  type: "annotations/entrySet";
  annotationId: string;
  entry: AnnotationEntry;
}

export interface AnnotationsEntryRemovedAction {
  type: "annotations/entryRemoved";
  annotationId: string;
  entryId: string;
}

export interface RootTerminalsChangedAction {
  type: "root/terminalsChanged";
  terminals: TerminalInfo[];
}

export interface TerminalDataAction {
  type: "terminal/data";
  data: string;
}

export interface TerminalInputAction {
  type: "terminal/input";
  data: string;
}

export interface TerminalResizedAction {
  type: "terminal/resized";
  cols: number;
  rows: number;
}

export interface TerminalClaimedAction {
  type: "terminal/claimed";
  claim: TerminalClaim;
}

export interface TerminalTitleChangedAction {
  type: "terminal/titleChanged";
  title: string;
}

export interface TerminalCwdChangedAction {
  type: "terminal/cwdChanged";
  cwd: Uri;
}

export interface TerminalExitedAction {
  type: "terminal/exited";
  exitCode?: number;
}

export interface TerminalClearedAction {
  type: "terminal/cleared";
}

export interface TerminalCommandDetectionAvailableAction {
  type: "terminal/commandDetectionAvailable";
}

export interface TerminalCommandExecutedAction {
  type: "terminal/commandExecuted";
  commandId: string;
  commandLine: string;
  timestamp: number;
}

export interface TerminalCommandFinishedAction {
  type: "terminal/commandFinished";
  commandId: string;
  exitCode?: number;
  durationMs?: number;
}

export interface ResourceWatchChangedAction {
  type: "resourceWatch/changed";
  changes: unknown;
}

export interface AutomationCreateRequestedAction {
  type: "automation/createRequested";
  resource: Uri;
  definition: AutomationDefinition;
}

export interface AutomationUpdateRequestedAction {
  type: "automation/updateRequested";
  resource: Uri;
  changes: AutomationDefinitionPatch;
}

export interface AutomationSetAction {
  type: "automation/set";
  automation: AutomationEntry;
}

export interface AutomationRemovedAction {
  type: "automation/removed";
  resource: Uri;
}

export interface AutomationRunLifecycleChangedAction {
  type: "automationRun/lifecycleChanged";
  lifecycle: AutomationRunLifecycle;
}

export interface AutomationRunSessionSetAction {
  type: "automationRun/sessionSet";
  session: Uri;
}

export interface AutomationRunSessionRemovedAction {
  type: "automationRun/sessionRemoved";
  session: Uri;
}

export interface AutomationRunPrimarySessionChangedAction {
  type: "automationRun/primarySessionChanged";
  primarySession?: Uri;
}

export interface AutomationRunCancelRequestedAction {
  type: "automationRun/cancelRequested";
}

export interface PartialChatSummary {
  resource?: Uri;
  title?: string;
  status?: number;
  activity?: string;
  modifiedAt?: string;
  changes?: ChangesSummary;
  origin?: ChatOrigin;
  movable?: boolean;
  interactivity?: ChatInteractivity;
  workingDirectories?: Uri[];
}

export type StateAction =
  | RootAgentsChangedAction
  | RootActiveSessionsChangedAction
  | RootConfigChangedAction
  | SessionReadyAction
  | SessionCreationFailedAction
  | SessionChatAddedAction
  | SessionChatRemovedAction
  | SessionChatUpdatedAction
  | SessionChatsReorderedAction
  | SessionDefaultChatChangedAction
  | ChatTurnStartedAction
  | ChatDeltaAction
  | ChatResponsePartAction
  | ChatToolCallStartAction
  | ChatToolCallDeltaAction
  | ChatToolCallReadyAction
  | ChatToolCallConfirmedAction
  | ChatToolCallCompleteAction
  | ChatToolCallResultConfirmedAction
  | ChatToolCallContentChangedAction
  | ChatToolCallAuthRequiredAction
  | ChatToolCallAuthResolvedAction
  | ChatTurnCompleteAction
  | ChatTurnCancelledAction
  | ChatErrorAction
  | ChatTurnResumeAction
  | ChatActivityChangedAction
  | ChatBackgroundWorkSetAction
  | ChatBackgroundWorkRemovedAction
  | ChatMovableChangedAction
  | ChatChangesetsChangedAction
  | ChatCanvasesChangedAction
  | CanvasStateChangedAction
  | SessionTitleChangedAction
  | ChatUsageAction
  | ChatReasoningAction
  | SessionIsReadChangedAction
  | SessionIsArchivedChangedAction
  | SessionActivityChangedAction
  | SessionChangesetsChangedAction
  | SessionServerToolsChangedAction
  | SessionActiveClientSetAction
  | SessionActiveClientRemovedAction
  | SessionWorkingDirectorySetAction
  | SessionWorkingDirectoryRemovedAction
  | SessionWorkingDirectoryReplacedAction
  | ChatWorkingDirectorySetAction
  | ChatWorkingDirectoryRemovedAction
  | SessionInputNeededSetAction
  | SessionInputNeededRemovedAction
  | ChatPendingMessageSetAction
  | ChatPendingMessageRemovedAction
  | ChatQueuedMessagesReorderedAction
  | ChatDraftChangedAction
  | ChatIsReadChangedAction
  | ChatIsArchivedChangedAction
  | ChatInputRequestedAction
  | ChatInputAnswerChangedAction
  | ChatInputCompletedAction
  | SessionCustomizationsChangedAction
  | SessionCustomizationToggledAction
  | SessionCustomizationUpdatedAction
  | SessionCustomizationRemovedAction
  | SessionMcpServerStateChangedAction
  | SessionMcpServerStartRequestedAction
  | SessionMcpServerStopRequestedAction
  | SessionMcpServerBackgroundRequestedAction
  | ChatTruncatedAction
  | ChatTurnsLoadedAction
  | SessionConfigChangedAction
  | SessionMetaChangedAction
  | ChangesetStatusChangedAction
  | ChangesetFileSetAction
  | ChangesetFileRemovedAction
  | ChangesetFilesReviewChangedAction
  | ChangesetContentChangedAction
  | ChangesetOperationsChangedAction
  | ChangesetOperationStatusChangedAction
  | ChangesetClearedAction
  | AnnotationsSetAction
  | AnnotationsUpdatedAction
  | AnnotationsRemovedAction
  | AnnotationsEntrySetAction
  | AnnotationsEntryRemovedAction
  | RootTerminalsChangedAction
  | TerminalDataAction
  | TerminalInputAction
  | TerminalResizedAction
  | TerminalClaimedAction
  | TerminalTitleChangedAction
  | TerminalCwdChangedAction
  | TerminalExitedAction
  | TerminalClearedAction
  | TerminalCommandDetectionAvailableAction
  | TerminalCommandExecutedAction
  | TerminalCommandFinishedAction
  | ResourceWatchChangedAction
  | AutomationCreateRequestedAction
  | AutomationUpdateRequestedAction
  | AutomationSetAction
  | AutomationRemovedAction
  | AutomationRunLifecycleChangedAction
  | AutomationRunSessionSetAction
  | AutomationRunSessionRemovedAction
  | AutomationRunPrimarySessionChangedAction
  | AutomationRunCancelRequestedAction;

export type ReconnectResultType =
  | "replay"
  | "snapshot";

export type ChatSourceKind =
  | "fork"
  | "sideChat";

export type ChatMoveDestinationKind =
  | "session"
  | "newSession";

export type ContentEncoding =
  | "base64"
  | "utf-8";

export type CompletionItemKind =
  | "userMessage";

export type ResourceType =
  | "file"
  | "directory"
  | "symlink";

export type ResourceWriteMode =
  | "truncate"
  | "append"
  | "insert";

export interface InitializeParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  protocolVersions: string[];
  clientId: string;
  clientInfo?: Implementation;
  initialSubscriptions?: Uri[];
  locale?: string;
  capabilities?: ClientCapabilities;
}

export interface InitializeResult {
  protocolVersion: string;
  serverSeq: number;
  serverInfo?: Implementation;
  _meta?: Record<string, unknown>;
  snapshots: Snapshot[];
  defaultDirectory?: Uri;
  completionTriggerCharacters?: string[];
  terminalCommandPrefix?: string;
  telemetry?: TelemetryCapabilities;
  automations?: AutomationCapabilities;
}

export interface ClientCapabilities {
  mcpApps?: Record<string, unknown>;
}

export interface AutomationCapabilities {
  create?: AutomationCreateCapability;
  schedules?: AutomationScheduleCapabilities;
  runCancellation?: AutomationRunCancellationCapability;
  runHistoryLimit?: number;
  customizations?: AutomationCustomizationsCapability;
}

export type AutomationCreateCapability = Record<string, never>;

export interface AutomationScheduleCapabilities {
  minIntervalMinutes?: number;
}

export type AutomationRunCancellationCapability = Record<string, never>;

export type AutomationCustomizationsCapability = Record<string, never>;

export interface Implementation {
  name: string;
  version?: string;
  title?: string;
}

export interface ReconnectParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  clientId: string;
  lastSeenServerSeq: number;
  subscriptions: Uri[];
}

export interface ReconnectReplayResult {
  type: "replay";
  actions: ActionEnvelope[];
  missing: Uri[];
}

export interface ReconnectSnapshotResult {
  type: "snapshot";
  snapshots: Snapshot[];
}

export interface SubscribeParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  delivery?: SubscriptionDeliveryOptions;
  view?: SubscribeView;
}

export interface SubscribeView {
  turns?: number;
}

export interface SubscriptionDeliveryOptions {
  maxLatencyMs?: number;
}

export interface SubscribeResult {
  snapshot?: Snapshot;
}

export interface CreateSessionParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  provider?: string;
  workingDirectories?: Uri[];
  config?: Record<string, unknown>;
  activeClient?: SessionActiveClient;
  progressToken?: string;
}

export interface DisposeSessionParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
}

export interface ForkChatSource {
  kind: "fork";
  chat: Uri;
  turnId: string;
}

export interface SideChatSource {
  kind: "sideChat";
  chat: Uri;
  turnId: string;
  selection?: SideChatSelection;
}

export interface CreateChatParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  chat: Uri;
  initialMessage?: Message;
  source?: ChatSource;
  workingDirectories?: Uri[];
}

export interface DisposeChatParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
}

export interface ChatMoveToSessionDestination {
  kind: "session";
  session: Uri;
  after?: Uri;
}

export interface ChatMoveToNewSessionDestination {
  kind: "newSession";
}

export interface MoveChatParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  destination: ChatMoveDestination;
}

export interface MoveChatResult {
  session: Uri;
}

export interface ListSessionsParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  limit?: number;
  cursor?: string;
}

export interface ListSessionsResult {
  nextCursor?: string;
  items: SessionSummary[];
}

export interface ResourceReadParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  uri: string;
  encoding?: ContentEncoding;
}

export interface ResourceReadResult {
  data: string;
  encoding: ContentEncoding;
  contentType?: string;
}

export interface ResourceWriteParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  uri: Uri;
  data: string;
  encoding: ContentEncoding;
  contentType?: string;
  createOnly?: boolean;
  mode?: ResourceWriteMode;
  position?: number;
  ifMatch?: string;
}

export type ResourceWriteResult = Record<string, never>;

export interface ResourceListParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  uri: Uri;
}

export interface ResourceListResult {
  entries: DirectoryEntry[];
}

export interface DirectoryEntry {
  name: string;
  type: string;
}

export interface ResourceCopyParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  source: Uri;
  destination: Uri;
  failIfExists?: boolean;
}

export type ResourceCopyResult = Record<string, never>;

export interface ResourceDeleteParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  uri: Uri;
  recursive?: boolean;
}

export type ResourceDeleteResult = Record<string, never>;

export interface ResourceMoveParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  source: Uri;
  destination: Uri;
  failIfExists?: boolean;
}

export type ResourceMoveResult = Record<string, never>;

export interface ResourceResolveParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  uri: Uri;
  followSymlinks?: boolean;
}

export interface ResourceResolveResult {
  uri: Uri;
  type: ResourceType;
  size?: number;
  mtime?: string;
  ctime?: string;
  contentType?: string;
  etag?: string;
}

export interface ResourceMkdirParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  uri: Uri;
}

export type ResourceMkdirResult = Record<string, never>;

export interface ResourceRequestParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  uri: Uri;
  read?: boolean;
  write?: boolean;
}

export type ResourceRequestResult = Record<string, never>;

export interface CreateResourceWatchParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  uri: Uri;
  recursive?: boolean;
  excludes?: unknown;
  includes?: unknown;
}

export interface CreateResourceWatchResult {
  channel: Uri;
}

export interface FetchTurnsParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  cursor?: string;
}

export type FetchTurnsResult = Record<string, never>;

export interface UnsubscribeParams {
  channel: Uri;
}

export interface DispatchActionParams {
  channel: Uri;
  clientSeq: number;
  action: StateAction;
}

export interface AuthenticateParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  resource: string;
  token: string;
  expiresIn?: number;
  scopes?: string[];
}

export type AuthenticateResult = Record<string, never>;

export interface CreateTerminalParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  claim: TerminalClaim;
  name?: string;
  cwd?: Uri;
  cols?: number;
  rows?: number;
}

export interface DisposeTerminalParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
}

export interface ResolveSessionConfigParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  provider?: string;
  workingDirectory?: Uri;
  config?: Record<string, unknown>;
}

export interface ResolveSessionConfigResult {
  schema: SessionConfigSchema;
  values: Record<string, unknown>;
}

export interface SessionConfigCompletionsParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  provider?: string;
  workingDirectory?: Uri;
  config?: Record<string, unknown>;
  property: string;
  query?: string;
}

export interface SessionConfigCompletionsResult {
  items: SessionConfigValueItem[];
}

export interface SessionConfigValueItem {
  value: string;
  label: string;
  description?: string;
}

export interface CompletionsParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  kind: CompletionItemKind;
  text: string;
  offset: number;
}

export interface CompletionItem {
  insertText: string;
  rangeStart?: number;
  rangeEnd?: number;
  attachment: MessageAttachment;
}

export interface CompletionsResult {
  items: CompletionItem[];
}

export interface InvokeChangesetOperationParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  operationId: string;
  target?: ChangesetOperationTarget;
}

export interface InvokeChangesetOperationResult {
  message?: StringOrMarkdown;
  followUp?: ChangesetOperationFollowUp;
}

export interface ChangesetOperationFollowUp {
  content: ContentRef;
  external?: boolean;
}

export interface ListAutomationTriggerDefinitionsParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  provider?: string;
  workingDirectories?: Uri[];
  sessionConfig?: Record<string, unknown>;
}

export interface ListAutomationTriggerDefinitionsResult {
  items: AutomationTriggerDefinition[];
}

export interface RunAutomationParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  automation: Uri;
  requestId: string;
}

export interface RunAutomationResult {
  resource: Uri;
}

export interface FetchAutomationRunsParams {
  channel: Uri;
  _meta?: Record<string, unknown>;
  automation: Uri;
  cursor?: string;
}

export type FetchAutomationRunsResult = Record<string, never>;

export type ChatSource =
  | ForkChatSource
  | SideChatSource;

export type ChatMoveDestination =
  | ChatMoveToSessionDestination
  | ChatMoveToNewSessionDestination;

export type ReconnectResult =
  | ReconnectReplayResult
  | ReconnectSnapshotResult;

export type ChangesetOperationTarget =
  | { kind: "resource"; resource: Uri; side?: string }
  | { kind: "range"; resource: Uri; side?: string; range: TextRange };

export type AuthRequiredReason =
  | "required"
  | "expired";

export interface SessionAddedParams {
  channel: Uri;
  summary: SessionSummary;
}

export interface SessionRemovedParams {
  channel: Uri;
  session: Uri;
}

export interface SessionSummaryChangedParams {
  channel: Uri;
  session: Uri;
  changes: PartialSessionSummary;
}

export interface ProgressParams {
  channel: Uri;
  progressToken: string;
  progress: number;
  total?: number;
  message?: string;
}

export interface AuthRequiredParams {
  channel: Uri;
  resource: ProtectedResourceMetadata;
  reason?: AuthRequiredReason;
}

export interface OtlpExportLogsParams {
  channel: Uri;
  payload: Record<string, unknown>;
}

export interface OtlpExportTracesParams {
  channel: Uri;
  payload: Record<string, unknown>;
}

export interface OtlpExportMetricsParams {
  channel: Uri;
  payload: Record<string, unknown>;
}

export interface PartialSessionSummary {
  provider?: string;
  title?: string;
  status?: number;
  activity?: string;
  origin?: SessionOrigin;
  project?: ProjectInfo;
  workingDirectories?: Uri[];
  annotations?: AnnotationsSummary;
  resource?: Uri;
  createdAt?: string;
  modifiedAt?: string;
  changes?: ChangesSummary;
  _meta?: Record<string, unknown>;
  chats?: SessionChatSummary[];
  defaultChat?: Uri;
}

export interface AuthRequiredErrorData {
  resources: ProtectedResourceMetadata[];
}

export interface PermissionDeniedErrorData {
  request?: ResourceRequestParams;
}

export interface UnsupportedProtocolVersionErrorData {
  supportedVersions: string[];
}
